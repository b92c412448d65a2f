// Bundle the page once: node bundle.mjs OUTPUT-FOLDER, from a folder where `npm install` was run.
//
// The folder then has all that a browser asks for, at its path. `overrides` in package.json leave out what
// Grafana's packages ask for and no panel of ours uses, or only types and linters.
import { cp, writeFile } from 'node:fs/promises';
import { build } from 'esbuild';

const PAGE = '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/page.css"><body><div id="root"></div><script src="/page.js"></script>';

// Grafana's packages as CommonJS: some of what they import has its default export only for that.
const asCommonJs = {
  name: 'as-commonjs',
  setup(build) {
    build.onResolve({ filter: /^@grafana\// }, ({ path, pluginData, ...rest }) =>
      pluginData === 'seen' || path.endsWith('.css')
        ? undefined
        : build.resolve(path, { ...rest, kind: 'require-call', pluginData: 'seen' })
    );
  },
};

const [, , out] = process.argv;
await cp('node_modules/@grafana/ui/dist/public/img', `${out}/public/build/img`, { recursive: true });
for (const [weight, name] of [[400, 'Regular'], [500, 'Medium']]) {
  const font = `node_modules/@fontsource/inter/files/inter-latin-${weight}-normal.woff2`;
  await cp(font, `${out}/public/fonts/inter/Inter-${name}.woff2`);
}
await cp('node_modules/axe-core/axe.min.js', `${out}/axe.min.js`);
await writeFile(`${out}/index.html`, PAGE);
await build({
  entryPoints: ['page.jsx'],
  outfile: `${out}/page.js`,
  bundle: true,
  format: 'iife',
  jsx: 'automatic',
  minify: true,
  plugins: [asCommonJs],
  loader: { '.ttf': 'empty', '.woff': 'dataurl', '.woff2': 'dataurl', '.svg': 'dataurl', '.png': 'dataurl' },
  define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
  logLevel: 'error',
});
