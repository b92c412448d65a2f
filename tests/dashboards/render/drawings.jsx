// Each kind of panel, by its name in a dashboard's JSON.
import { dateTime, getFieldDisplayValues } from '@grafana/data';
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
function cells(scene, theme, names) {
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
    range: () => [0, names.length],
  });
  builder.addAxis({
    scaleKey: 'y',
    placement: AxisPlacement.Left,
    theme,
    grid: { show: false },
    splits: () => names.map((_, row) => row + 0.5),
    values: () => names,
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
  const builder = cells(scene, theme, order.map((index) => names[index]));
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

export const drawings = {
  stat: Stat,
  timeseries: Lines,
  table: Rows,
  'state-timeline': Timeline,
};
