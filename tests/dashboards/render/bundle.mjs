// Bundle the page once: node bundle.mjs OUTPUT-FOLDER, from a folder where `npm ci` was run.
//
// Once it is there, only `dependencies` are still needed, no `devDependencies`. `overrides` in package.json
// leave out what Grafana's packages ask for and no panel of ours uses, or only types and linters.
import { cp } from 'node:fs/promises';
import { build } from 'esbuild';

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
await cp('node_modules/@grafana/ui/dist/public/img', `${out}/img`, { recursive: true });
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
