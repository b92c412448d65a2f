// From Prometheus' answers to the data frames that Grafana's panels take.
//
// Here: what Grafana's Prometheus data source and its dashboards do with an answer before a panel sees
// it: names from legends, tables, buckets, transformations, units, thresholds. Not here: drawing.
import {
  applyFieldOverrides,
  createDataFrame,
  FieldType,
  getFieldDisplayName,
  identityOverrideProcessor,
  standardFieldConfigEditorRegistry,
  FieldConfigOptionsRegistry,
  standardTransformers,
  standardTransformersRegistry,
  transformDataFrame,
} from '@grafana/data';

// Properties that our overrides set. Grafana registers these, and many more, with their editors.
const PROPERTIES = ['unit', 'decimals', 'mappings', 'thresholds', 'color', 'links', 'displayName', 'noValue', 'min', 'max'];
const CUSTOM = ['cellOptions', 'minWidth', 'drawStyle', 'lineWidth', 'fillOpacity', 'showPoints', 'stacking', 'thresholdsStyle', 'axisSoftMin', 'axisSoftMax'];

function property(path, isCustom) {
  const id = isCustom ? `custom.${path}` : path;
  return { id, path, isCustom, name: id, override: () => null, editor: () => null, process: identityOverrideProcessor, shouldApply: () => true };
}

const registry = new FieldConfigOptionsRegistry(() => [
  ...PROPERTIES.map((path) => property(path, false)),
  ...CUSTOM.map((path) => property(path, true)),
]);

export function registerFields() {
  standardFieldConfigEditorRegistry.setInit(() => PROPERTIES.map((path) => property(path, false)));
  const used = [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer];
  standardTransformersRegistry.setInit(() =>
    used.map((transformation) => ({ id: transformation.id, name: transformation.name, transformation, editor: () => null }))
  );
}

function named(legend, labels) {
  return legend.replace(/{{\s*(.+?)\s*}}/g, (_, label) => labels[label] ?? '');
}

function finite(text) {
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}

function lines(target, result) {
  return result.map(({ metric, value, values }) => {
    const points = values ?? [value];
    const auto = target.legendFormat === '__auto';
    const config = auto ? {} : { displayNameFromDS: named(target.legendFormat, metric) };
    return createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: points.map(([time]) => time * 1000) },
        // What is no number is drawn as a gap.
        { name: 'Value', type: FieldType.number, values: points.map(([, text]) => finite(text)), labels: metric, config },
      ],
    });
  });
}

function table(target, result, alone) {
  const labels = [...new Set(result.flatMap(({ metric }) => Object.keys(metric)))].sort();
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: result.map(({ value }) => value[0] * 1000) },
      ...labels.map((label) => ({ name: label, type: FieldType.string, values: result.map(({ metric }) => metric[label] ?? '') })),
      { name: alone ? 'Value' : `Value #${target.refId}`, type: FieldType.number, values: result.map(({ value }) => Number(value[1])) },
    ],
  });
}

export function framesOf(panel, answers) {
  return panel.targets.flatMap((target) => {
    const result = answers[target.refId];
    if (result.length === 0) {
      return [];
    }
    return target.format === 'table' ? [table(target, result, panel.targets.length === 1)] : lines(target, result);
  });
}

// Transformations of these frames are synchronous, though rxjs does not say so.
function transformed(panel, frames) {
  let out = frames;
  transformDataFrame(panel.transformations ?? [], frames).subscribe((after) => {
    out = after;
  });
  return out;
}

// A gap of some steps without a sample interrupts a line, as Grafana does it on the server.
function interrupted(frame, scene) {
  const [times, values] = frame.fields;
  const [at, what] = [[], []];
  times.values.forEach((time, i) => {
    if (i > 0 && time - times.values[i - 1] > 1500 * scene.step) {
      at.push(times.values[i - 1] + 1000 * scene.step);
      what.push(null);
    }
    at.push(time);
    what.push(values.values[i]);
  });
  return { ...frame, length: at.length, fields: [{ ...times, values: at }, { ...values, values: what }] };
}

export function prepare(panel, frames, scene, theme) {
  const whole = panel.targets.some((target) => target.instant) ? frames : frames.map((frame) => interrupted(frame, scene));
  const data = transformed(panel, whole);
  const series = applyFieldOverrides({
    data,
    fieldConfig: panel.fieldConfig,
    fieldConfigRegistry: registry,
    replaceVariables: (text, vars) => filled(text, { ...scene.values, ...vars }, data),
    theme,
    timeZone: 'utc',
  });
  series.forEach((frame) =>
    frame.fields.forEach((field) => {
      field.state = { ...field.state, displayName: getFieldDisplayName(field, frame, series) };
    })
  );
  return series;
}

// The few variables that display names use.
function filled(text, vars) {
  const field = vars?.__field?.value?.field ?? vars?.__dataContext?.value?.field;
  return text.replace(/\${__field\.labels\.(\w+)}/g, (_, label) => field?.labels?.[label] ?? '');
}

