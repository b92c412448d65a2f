// Draw scenes in headless Chromium: node shoot.mjs CHROMIUM BUNDLE-FOLDER < [scene, ...] > [{texts, errors}, ...]
//
// A scene says where its picture goes (`picture`); `texts` is what each panel says, `errors` what the page
// complained about.
import { readFile } from 'node:fs/promises';
import { join, normalize } from 'node:path';
import { text } from 'node:stream/consumers';
import { chromium } from 'playwright-core';

const [, , executablePath, folder] = process.argv;
const QUIET = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const HTML = '<!doctype html><html><head><meta charset="utf-8"><link rel="stylesheet" href="/page.css"></head><body><div id="root"></div><script src="/page.js"></script></body></html>';
const ORIGIN = 'http://dashboards.invalid';

// Where a Grafana server has its fonts and icons, and where they are here.
const PUBLIC = [
  ['/public/build/img/', `${folder}/img/`],
  ['/public/fonts/inter/Inter-Regular.woff2', 'node_modules/@fontsource/inter/files/inter-latin-400-normal.woff2'],
  ['/public/fonts/inter/Inter-Medium.woff2', 'node_modules/@fontsource/inter/files/inter-latin-500-normal.woff2'],
];

function fileOf(pathname) {
  const path = normalize(pathname);
  const [from, to] = PUBLIC.find(([start]) => path.startsWith(start)) ?? ['/', `${folder}/`];
  return join(to, path.slice(from.length));
}

async function serve(route, errors) {
  const { pathname } = new URL(route.request().url());
  if (pathname === '/') {
    return route.fulfill({ body: HTML, contentType: 'text/html' });
  }
  if (pathname.startsWith('/public/fonts/roboto/')) {
    // Of code: the browser's own is as good.
    return route.fulfill({ status: 404, body: '' });
  }
  try {
    const body = await readFile(fileOf(pathname));
    const types = { svg: 'image/svg+xml', css: 'text/css', js: 'text/javascript' };
    return route.fulfill({ body, contentType: types[pathname.split('.').pop()] });
  } catch {
    errors.push(`not there: ${pathname}`);
    return route.fulfill({ status: 404, body: '' });
  }
}

// Runs in the page: how many different colours each panel's canvas shows.
function inked() {
  const count = (canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] > 200) {
        seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
      }
    }
    return seen.size;
  };
  const panels = [...document.querySelectorAll('[data-panel]')];
  return Object.fromEntries(panels.map((each) => [each.dataset.panel, [...each.querySelectorAll('canvas')].map(count)]));
}

// One page for all scenes: the bundle is 10 MB, which take longer to load than a scene to draw.
async function opened(browser, errors) {
  const page = await browser.newPage();
  // For a machine that is busy with other tests; nothing here waits for something not to happen.
  page.setDefaultTimeout(120000);
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && !message.text().startsWith('Failed to load resource') && errors.push(message.text()));
  await page.route('**/*', (route) => serve(route, errors));
  await page.goto(`${ORIGIN}/`);
  return page;
}

async function shoot(page, errors, scene) {
  await page.setViewportSize({ width: scene.width, height: 900 });
  await page.evaluate((given) => window.draw(given), scene);
  await page.waitForSelector('[data-panel]').catch((error) => {
    throw new Error([...errors, error.message].join('\n'));
  });
  await page.waitForLoadState('networkidle');
  // Two frames: what React and uPlot put off until after the first has been painted.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const texts = await page.$$eval('[data-panel]', (found) => Object.fromEntries(found.map((each) => [each.dataset.panel, each.innerText])));
  const colours = await page.evaluate(inked);
  await page.screenshot({ path: scene.picture, fullPage: true });
  return { texts, colours, errors: errors.splice(0) };
}

const scenes = JSON.parse(await text(process.stdin));
const browser = await chromium.launch({ executablePath, args: QUIET, chromiumSandbox: false });
try {
  const found = [];
  const errors = [];
  const page = await opened(browser, errors);
  for (const scene of scenes) {
    found.push(await shoot(page, errors, scene));
  }
  process.stdout.write(JSON.stringify(found));
} finally {
  await browser.close();
}
