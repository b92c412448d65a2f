// Each kind of panel, by its name in a dashboard's JSON.
import uPlot from 'uplot';
import { dateTime, FieldType, formattedValueToString, getDisplayProcessor, getFieldDisplayValues, getValueFormat, renderTextPanelMarkdown } from '@grafana/data';
import { AxisPlacement, ScaleDirection, ScaleOrientation } from '@grafana/schema';
import { BigValue, Table, TimeSeries, UPlotChart, UPlotConfigBuilder, VizLegend, VizLayout } from '@grafana/ui';

function timeRange({ from, to }) {
  const [start, end] = [dateTime(from * 1000), dateTime(to * 1000)];
  return { from: start, to: end, raw: { from: start, to: end } };
}

// Grafana's app draws annotations over every chart with time; its components alone do not.
function addMarks(builder, marks, theme) {
  builder.addHook('draw', (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.setLineDash([4, 4]);
    marks.forEach(({ time, color }) => {
      const x = plot.valToPos(time * 1000, 'x', true);
      ctx.strokeStyle = theme.visualization.getColorByName(color);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    });
    ctx.restore();
  });
}

function Stat({ panel, series, theme, width, height }) {
  const { reduceOptions, colorMode, graphMode, textMode } = panel.options;
  const [shown] = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions,
    replaceVariables: (text) => text,
    theme,
    data: series,
  });
  // As Grafana's panel does it: the name of a single value is shown only where it is asked for.
  const value = { ...shown.display, title: textMode === 'name' ? shown.display.title : undefined };
  return <BigValue {...{ value, theme, width, height, colorMode, graphMode }} textMode={textMode} justifyMode="auto" />;
}

function Lines({ panel, series, scene, theme, width, height, marks }) {
  return (
    <TimeSeries
      frames={series}
      structureRev={1}
      timeRange={timeRange(scene)}
      timeZone="utc"
      {...{ width, height }}
      legend={panel.options.legend}
      options={panel.options}
    >
      {(builder) => {
        addMarks(builder, marks, theme);
        return null;
      }}
    </TimeSeries>
  );
}

function Rows({ panel, series, width, height }) {
  const sortBy = panel.options.sortBy ?? [];
  return <Table {...{ width, height }} data={series[0]} cellHeight={panel.options.cellHeight} initialSortBy={sortBy} />;
}

// Scales and axes of a chart of cells: time across, rows upwards.
function cells(scene, theme, rows, label) {
  const builder = new UPlotConfigBuilder('utc');
  builder.addScale({
    scaleKey: 'x',
    isTime: true,
    orientation: ScaleOrientation.Horizontal,
    direction: ScaleDirection.Right,
    range: () => [scene.from * 1000, scene.to * 1000],
  });
  builder.addAxis({ scaleKey: 'x', isTime: true, placement: AxisPlacement.Bottom, timeZone: 'utc', theme });
  builder.addScale({
    scaleKey: 'y',
    orientation: ScaleOrientation.Vertical,
    direction: ScaleDirection.Up,
    range: () => [0, rows],
  });
  builder.addAxis({
    scaleKey: 'y',
    placement: AxisPlacement.Left,
    theme,
    grid: { show: false },
    splits: () => Array.from({ length: rows }, (_, row) => row + label.offset),
    values: (_, splits) => splits.map((at) => label.text(Math.floor(at))),
  });
  builder.addSeries({ scaleKey: 'y', pxAlign: false, theme, show: false });
  return builder;
}

function Chart({ builder, width, height, scene }) {
  const data = [[scene.from * 1000, scene.to * 1000], [0, 0]];
  return <UPlotChart config={builder} data={data} {...{ width, height }} />;
}

function Timeline({ series, scene, theme, width, height, marks }) {
  const names = series.map((frame) => frame.fields[1].state.displayName);
  const order = names.map((_, index) => index).sort((a, b) => names[b].localeCompare(names[a], undefined, { numeric: true }));
  const builder = cells(scene, theme, series.length, { offset: 0.5, text: (row) => names[order[row]] });
  const seen = new Map();
  builder.addHook('draw', (plot) => {
    order.forEach((index, row) => {
      const [times, states] = series[index].fields;
      const top = plot.valToPos(row + 0.9, 'y', true);
      const bottom = plot.valToPos(row + 0.1, 'y', true);
      times.values.forEach((time, i) => {
        if (states.values[i] === null) {
          return;
        }
        const left = plot.valToPos(time, 'x', true);
        const right = plot.valToPos(time + scene.step * 1000, 'x', true);
        plot.ctx.fillStyle = states.display(states.values[i]).color;
        plot.ctx.fillRect(left, top, Math.min(right, plot.bbox.left + plot.bbox.width) - left + 0.5, bottom - top);
      });
    });
  });
  addMarks(builder, marks, theme);
  series.forEach((frame) =>
    frame.fields[1].values.forEach((state) => {
      if (state !== null) {
        const shown = frame.fields[1].display(state);
        seen.set(shown.text, { label: shown.text, color: shown.color, yAxis: 1 });
      }
    })
  );
  const legend = (
    <VizLayout.Legend placement="bottom">
      <VizLegend placement="bottom" displayMode="list" items={[...seen.values()]} />
    </VizLayout.Legend>
  );
  return (
    <VizLayout {...{ width, height, legend }}>
      {(innerWidth, innerHeight) => <Chart {...{ builder, scene }} width={innerWidth} height={innerHeight} />}
    </VizLayout>
  );
}

// From blue, few, over green to red, many: the colours of Grafana's Turbo.
function turbo(share) {
  const hue = 230 - 230 * share;
  return `hsl(${hue} 85% 55%)`;
}

function Heat({ panel, series, scene, theme, width, height }) {
  const bound = (frame) => Number(frame.fields[1].labels.le.replace('+Inf', 'Infinity'));
  const rising = [...series].sort((a, b) => bound(a) - bound(b));
  // Buckets are cumulative: what is new in each is the difference to the one below.
  const below = (row, time) => {
    const frame = rising[row - 1];
    const at = frame ? frame.fields[0].values.indexOf(time) : -1;
    return at < 0 ? 0 : frame.fields[1].values[at];
  };
  const found = rising.map((frame, row) => frame.fields[1].values.map((count, i) => Math.max(0, count - below(row, frame.fields[0].values[i]))));
  const used = found.map((counts, row) => (counts.some((count) => count > 0.01) ? row : -1)).filter((row) => row >= 0);
  const [first, last] = [Math.max(0, Math.min(...used) - 1), Math.max(...used) + 1];
  const most = Math.max(...found.flat());
  const format = getValueFormat(panel.options.yAxis.unit);
  const text = (row) => (Number.isFinite(bound(rising[row + first] ?? rising[0])) ? formattedValueToString(format(bound(rising[Math.min(row + first, rising.length - 1)]))) : '+Inf');
  const rows = Math.min(last, rising.length) - first;
  const builder = cells(scene, theme, rows, { offset: 0.5, text: (row) => `≤ ${text(row)}` });
  builder.addHook('draw', (plot) => {
    for (let row = first; row < first + rows; row++) {
      const top = plot.valToPos(row - first + 1, 'y', true) + 1;
      const bottom = plot.valToPos(row - first, 'y', true);
      rising[row].fields[0].values.forEach((time, i) => {
        if (found[row][i] > 0.01) {
          const left = plot.valToPos(time - scene.step * 1000, 'x', true);
          const right = plot.valToPos(time, 'x', true);
          plot.ctx.fillStyle = turbo(Math.sqrt(found[row][i] / most));
          plot.ctx.fillRect(Math.max(left, plot.bbox.left), top, right - Math.max(left, plot.bbox.left) - 0.5, bottom - top);
        }
      });
    }
  });
  return <Chart {...{ builder, scene, width, height }} />;
}

function Text({ panel, width, height }) {
  const html = { __html: renderTextPanelMarkdown(panel.options.content) };
  return <div className="markdown-html" style={{ width, height, padding: 8, overflow: 'auto' }} dangerouslySetInnerHTML={html} />;
}

export const drawings = {
  text: Text,
  stat: Stat,
  timeseries: Lines,
  table: Rows,
  statetimeline: Timeline,
  'state-timeline': Timeline,
  heatmap: Heat,
};
