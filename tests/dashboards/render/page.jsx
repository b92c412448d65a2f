// A dashboard drawn with Grafana's own components, from its JSON and from what Prometheus answered.
//
// Here: the grid, and each kind of panel by the component of @grafana/ui that Grafana itself uses for it.
// Grafana has no published component for state timelines: they are drawn here, on Grafana's uPlot, axes,
// formats and theme. Not here: asking Prometheus, and Grafana's own editing,
// variables, tooltips and zoom.
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { createTheme, EventBusSrv, ThemeContext } from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { GlobalStyles, PanelChrome, PanelContextProvider } from '@grafana/ui';
import { framesOf, prepare, registerFields } from './frames.js';
import { drawings } from './drawings.jsx';

const COLUMN = 24;
const CELL = 30;
const GAP = 8;

function place({ x, y, w, h }, width) {
  const column = (width - GAP) / COLUMN;
  return {
    position: 'absolute',
    left: GAP + x * column,
    top: GAP + y * (CELL + GAP),
    width: w * column - GAP,
    height: h * (CELL + GAP) - GAP,
  };
}

function Panel({ panel, scene, theme, width, height }) {
  const Drawing = drawings[panel.type];
  const series = prepare(panel, framesOf(panel, scene.answers[panel.id]), scene, theme);
  return (
    <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
      {(innerWidth, innerHeight) =>
        series.length === 0 ? (
          <div style={{ padding: 8 }}>{panel.fieldConfig.defaults.noValue ?? 'No data'}</div>
        ) : (
          <Drawing
            {...{ panel, series, scene, theme }}
            marks={scene.marks}
            width={innerWidth}
            height={innerHeight}
          />
        )
      }
    </PanelChrome>
  );
}

function Variables({ variables, theme }) {
  const box = { border: `1px solid ${theme.colors.border.medium}`, padding: '3px 8px', borderRadius: 2 };
  return variables.map(({ label, value }) => (
    <span key={label} style={{ ...box, marginRight: 12 }}>
      <span style={{ color: theme.colors.text.secondary }}>{label}</span> {value}
    </span>
  ));
}

function Dashboard({ scene, theme }) {
  const { dashboard, width } = scene;
  const { panels } = dashboard;
  const rows = panels.map((panel) => panel.gridPos.y + panel.gridPos.h);
  const context = { eventsScope: 'global', eventBus: new EventBusSrv() };
  return (
    <div style={{ background: theme.colors.background.canvas, width, padding: '8px 0' }}>
      <div style={{ padding: '4px 12px 10px' }}>
        <div style={{ ...theme.typography.h4, marginBottom: 10 }}>{dashboard.title}</div>
        <Variables variables={scene.variables} theme={theme} />
      </div>
      <PanelContextProvider value={context}>
        <div style={{ position: 'relative', height: Math.max(...rows) * (CELL + GAP) + GAP }}>
          {panels.map((panel) => {
            const spot = place(panel.gridPos, width);
            return panel.type === 'row' ? (
              <div key={panel.id} style={{ ...spot, ...theme.typography.h5, paddingTop: 6 }}>
                {panel.title}
              </div>
            ) : (
              <div key={panel.id} data-panel={panel.title} style={spot}>
                <Panel {...{ panel, scene, theme }} width={spot.width} height={spot.height} />
              </div>
            );
          })}
        </div>
      </PanelContextProvider>
    </div>
  );
}

let prepared;
let root;

async function prepareOnce() {
  await initPluginTranslations('grafana');
  registerFields();
}

// Instead of what was drawn before.
export async function draw(scene) {
  prepared ??= prepareOnce();
  await prepared;
  root?.unmount();
  const theme = createTheme({ colors: { mode: scene.theme } });
  document.body.style.margin = 0;
  root = createRoot(document.getElementById('root'));
  const page = (content) => (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles isExtensionsEnabled={false} />
      {content}
    </ThemeContext.Provider>
  );
  // The fonts come with the styles, and have to be there before anything measures its text.
  flushSync(() => root.render(page(null)));
  await Promise.all([400, 500].map((weight) => document.fonts.load(`${weight} 14px Inter`)));
  root.render(page(<Dashboard scene={scene} theme={theme} />));
}

window.__grafana_public_path__ = '/public/';
window.draw = draw;
