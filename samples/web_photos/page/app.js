// The page: a photograph in, what it shows out.
import { load } from './photos.js';
import { keep } from './offline.js';

const $ = (id) => document.getElementById(id);
const SIZE = 224;
const SHOWN = 5;
let model;
let names;
let shown; // the photograph, as an ImageBitmap
let turn = 0; // of the photographs that were given

// --- photographs --------------------------------------------------------------------------------

/** The middle of a picture, cut out square, as the network takes it. */
function pixelsOf(picture) {
  const canvas = new OffscreenCanvas(SIZE, SIZE);
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const side = Math.min(picture.width, picture.height);
  context.imageSmoothingQuality = 'high';
  context.drawImage(picture, (picture.width - side) / 2, (picture.height - side) / 2, side, side, 0, 0, SIZE, SIZE);
  const { data } = context.getImageData(0, 0, SIZE, SIZE);
  const photo = new Float32Array(SIZE * SIZE * 3);
  for (let pixel = 0; pixel < SIZE * SIZE; ++pixel)
    for (let colour = 0; colour < 3; ++colour) photo[3 * pixel + colour] = data[4 * pixel + colour];
  return photo;
}

async function take(file) {
  if (!file) return;
  const mine = ++turn;
  try {
    const picture = await createImageBitmap(file);
    if (mine !== turn) return;
    shown = picture;
  } catch {
    $('hint').textContent = `${file.name || 'this'} is no picture that this browser reads`;
    return;
  }
  paint();
  await look();
}

function paint() {
  const canvas = $('photo');
  const side = Math.min(shown.width, shown.height);
  canvas.width = canvas.height = Math.min(side, 1024);
  canvas.getContext('2d').drawImage(shown, (shown.width - side) / 2, (shown.height - side) / 2, side, side,
    0, 0, canvas.width, canvas.height);
  document.body.classList.add('has-photo');
}

$('file').onchange = ({ target }) => take(target.files[0]);
for (const name of ['dragover', 'drop'])
  addEventListener(name, (event) => {
    event.preventDefault();
    if (name === 'drop') take(event.dataTransfer.files[0]);
  });
addEventListener('paste', (event) => take(event.clipboardData.files[0]));

// --- looking ------------------------------------------------------------------------------------

const rows = Array.from({ length: SHOWN }, () => {
  const row = document.createElement('li');
  row.innerHTML = '<b></b><span><i></i></span><em></em>';
  $('bars').append(row);
  return row;
});

async function look() {
  if (!model || !shown) return;
  const mine = turn;
  const photo = pixelsOf(shown);
  document.body.dataset.looking = 'yes';
  try {
    const begin = performance.now();
    const { shares } = await model.main({ photo });
    const took = performance.now() - begin;
    if (mine !== turn) return;
    $('time').textContent = `${took.toFixed(took < 10 ? 1 : 0)} ms`;
    show(shares);
  } catch (error) {
    fail(error);
  }
  delete document.body.dataset.looking;
}

function show(shares) {
  const best = Array.from(shares.keys()).sort((a, b) => shares[b] - shares[a]).slice(0, SHOWN);
  rows.forEach((row, place) => {
    const kind = best[place];
    row.querySelector('b').textContent = names[kind];
    row.querySelector('i').style.transform = `scaleX(${shares[kind]})`;
    row.querySelector('em').textContent = `${(100 * shares[kind]).toFixed(1)} %`;
  });
}

// --- beginning ----------------------------------------------------------------------------------

function fail(error) {
  $('state').textContent = error.message;
  $('state').className = 'failed';
  document.body.dataset.state = 'failed';
}

/** Where it is kept that the GPU here computes right answers. */
const store = {
  get: (key) => localStorage.getItem(key),
  set: (key, value) => localStorage.setItem(key, value),
};

async function begin() {
  try {
    names = await (await fetch('names.json')).json();
    model = await load({
      // `?device=wasm` stays on the processor, `?device=gpu` on the GPU, a program's own included.
      device: new URLSearchParams(location.search).get('device') ?? undefined,
      prove: { store },
      progress: ({ loaded, total }) => { $('progress').value = total ? loaded / total : 0; },
    });
    $('state').textContent = model.passedOver.length ? `Not used: ${model.passedOver.join('; ')}.` : '';
    $('engine').textContent = model.device === 'wasm'
      ? `WebAssembly, ${model.threads} thread${model.threads > 1 ? 's' : ''}` : `WebGPU, ${model.device}`;
    document.body.dataset.state = 'ready';
    await look();
  } catch (error) {
    fail(error);
  }
  $('progress').remove();
}

begin().then(() => keep($('offline')));
