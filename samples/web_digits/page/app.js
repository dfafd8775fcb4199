// The page: ink in, a digit out.
import { load, variants } from './digits.js';
import { Ink } from './ink.js';
import { keep } from './offline.js';

const $ = (id) => document.getElementById(id);
const sheet = $('sheet');
const ink = new Ink();
const times = []; // milliseconds of the last readings
let model;
let reading = 0; // readings that have begun and not ended

// --- drawing -----------------------------------------------------------------------------------

const place = (event) => {
  const box = sheet.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
};
let pen; // the pointer that draws; others, such as the palm of a hand, are not looked at
let asked = false;

/** Once before the next frame, however many events there are. */
function refresh() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    paint();
    read();
  });
}

function paint() {
  const size = Math.round(sheet.clientWidth * devicePixelRatio);
  if (sheet.width !== size) sheet.width = sheet.height = size;
  const context = sheet.getContext('2d');
  context.clearRect(0, 0, size, size);
  context.strokeStyle = getComputedStyle(sheet).color;
  ink.draw(context, size, size * 0.07);
  document.body.classList.toggle('drawn', !ink.isEmpty);
  $('clear').disabled = $('undo').disabled = ink.isEmpty;
}

sheet.addEventListener('pointerdown', (event) => {
  if (pen !== undefined || event.button !== 0) return;
  pen = event.pointerId;
  sheet.setPointerCapture(pen);
  ink.begin(...place(event));
  refresh();
});
sheet.addEventListener('pointermove', (event) => {
  if (event.pointerId !== pen) return;
  const all = event.getCoalescedEvents?.() ?? [];
  for (const each of all.length ? all : [event]) ink.add(...place(each));
  refresh();
});
for (const name of ['pointerup', 'pointercancel'])
  sheet.addEventListener(name, (event) => { if (event.pointerId === pen) pen = undefined; });

const clear = () => { ink.clear(); refresh(); };
const undo = () => { ink.undo(); refresh(); };
$('clear').onclick = clear;
$('undo').onclick = undo;
addEventListener('keydown', (event) => {
  if (event.key === 'Escape' || event.key === 'Delete') clear();
  if (event.key === 'z' && (event.ctrlKey || event.metaKey)) undo();
});
addEventListener('resize', refresh);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', refresh);

// --- reading -----------------------------------------------------------------------------------

const rows = Array.from({ length: 10 }, (_, digit) => {
  const row = document.createElement('li');
  row.innerHTML = `<b>${digit}</b><span><i></i></span><em></em>`;
  $('bars').append(row);
  return row;
});

/** Scores to probabilities. */
function softmax(scores) {
  const most = Math.max(...scores);
  const raised = Array.from(scores, (score) => Math.exp(score - most));
  const sum = raised.reduce((a, b) => a + b);
  return raised.map((each) => each / sum);
}

async function read() {
  const image = ink.toImage();
  showSeen(image);
  if (ink.isEmpty || !model) return show(undefined);
  const begin = performance.now();
  reading += 1;
  document.body.dataset.reading = 'yes';
  const { logits } = await model.main({ image }).finally(() => {
    reading -= 1;
    if (!reading) delete document.body.dataset.reading;
  });
  times.push(performance.now() - begin);
  if (times.length > 50) times.shift();
  return show(softmax(logits));
}

function showSeen(image) {
  const context = $('seen').getContext('2d');
  const pixels = context.createImageData(8, 8);
  const [red, green, blue] = getComputedStyle(sheet).color.match(/\d+/g).map(Number);
  image.forEach((value, i) => pixels.data.set([red, green, blue, (255 * value) / 16], 4 * i));
  context.putImageData(pixels, 0, 0);
}

function show(shares) {
  const best = shares?.indexOf(Math.max(...shares));
  $('digit').value = best ?? '–';
  $('sure').textContent = shares ? `${(100 * shares[best]).toFixed(1)} % sure` : 'draw something';
  rows.forEach((row, digit) => {
    const share = shares?.[digit] ?? 0;
    row.className = digit === best ? 'best' : '';
    row.querySelector('i').style.transform = `scaleX(${share})`;
    row.querySelector('em').textContent = shares ? `${(100 * share).toFixed(1)} %` : '';
  });
  if (times.length) {
    // Browsers round their clocks: one reading alone would often take 0 or 0.1 ms.
    const mean = times.reduce((a, b) => a + b) / times.length;
    $('time').textContent = `${mean.toFixed(2)} ms`;
    $('time').title = `mean of the last ${times.length}`;
  }
}

// --- beginning ---------------------------------------------------------------------------------

/** What computes, in words. */
function engineOf({ variant, device }) {
  if (device !== 'wasm') return `WebGPU, ${device}`;
  return variant === 'wasm' ? 'WebAssembly, SIMD' : 'WebAssembly';
}

async function begin() {
  paint();
  show(undefined);
  try {
    model = await load({
      threads: 1,
      // `?device=wasm` stays on the processor, `?device=gpu` on the GPU.
      device: new URLSearchParams(location.search).get('device') ?? undefined,
      progress: ({ loaded, total }) => { $('progress').value = total ? loaded / total : 0; },
    });
    const { size, weights } = variants.find(({ name }) => name === model.variant);
    $('state').textContent = model.passedOver.length ? `Not used: ${model.passedOver.join('; ')}.` : '';
    $('size').textContent = `${Math.round((size + (weights?.size ?? 0)) / 1000)} KB`;
    $('engine').textContent = engineOf(model);
    document.body.dataset.state = 'ready';
    refresh();
  } catch (error) {
    $('state').textContent = error.message;
    $('state').className = 'failed';
    document.body.dataset.state = 'failed';
  }
  $('progress').remove();
}

begin().then(() => keep($('offline')));
