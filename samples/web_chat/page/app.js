// The page: questions in, answers out, written as they come.
import { loadText } from './chat.js';
import { keep } from './offline.js';

const $ = (id) => document.getElementById(id);
const messages = []; // the conversation so far
let model;
let breaking; // ends the answer that is being written

// --- the conversation --------------------------------------------------------------------------

function paragraph(role) {
  const made = document.createElement('p');
  made.className = role;
  $('said').append(made);
  return made;
}

async function ask(question) {
  messages.push({ role: 'user', content: question });
  paragraph('user').textContent = question;
  const written = paragraph('assistant');
  breaking = new AbortController();
  busy(true);
  try {
    const limit = Number(new URLSearchParams(location.search).get('limit')) || undefined;
    const answer = model.chat(messages, { signal: breaking.signal, limit });
    for await (const piece of answer) {
      written.append(piece);
      written.scrollIntoView({ block: 'end' });
      show(answer.stats);
    }
    show(answer.stats);
    if (answer.finish === 'context') written.append(' … (the context is full)');
    messages.push({ role: 'assistant', content: answer.text });
    document.body.dataset.finish = answer.finish;
  } catch (error) {
    messages.pop();
    written.className = 'failed';
    written.textContent = error.message;
    document.body.dataset.finish = 'failed';
  }
  busy(false);
}

function show({ first, tokens, seconds }) {
  $('first').textContent = `${first.toFixed(2)} s`;
  if (tokens > 1) $('rate').textContent = ((tokens - 1) / seconds).toFixed(1);
}

function busy(is) {
  $('send').hidden = is;
  $('stop').hidden = !is;
  if (is) delete document.body.dataset.finish;
  else $('question').focus();
}

$('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const question = $('question').value.trim();
  if (!model || !question || !$('stop').hidden) return;
  $('question').value = '';
  ask(question);
});
$('question').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $('ask').requestSubmit();
});
$('stop').onclick = () => breaking.abort();

// --- beginning ---------------------------------------------------------------------------------

const megabytes = (bytes) => `${Math.round(bytes / 1e6)} MB`;

async function begin() {
  try {
    model = await loadText({
      worker: true,
      device: new URLSearchParams(location.search).get('device') ?? undefined,
      progress: ({ loaded, total, source }) => {
        $('progress').value = total ? loaded / total : 0;
        $('state').textContent = `${source === 'cache' ? 'Kept here' : 'Loading'}: ${megabytes(loaded)}`;
      },
    });
    const { device, threads } = model.model;
    $('engine').textContent = device === 'wasm' ? `WebAssembly, ${threads} thread${threads > 1 ? 's' : ''}` : device;
    $('state').textContent = '';
    $('question').disabled = $('send').disabled = false;
    document.body.dataset.state = 'ready';
  } catch (error) {
    $('state').textContent = error.message;
    $('state').className = 'failed';
    document.body.dataset.state = 'failed';
  }
  $('progress').remove();
}

begin().then(() => keep($('offline')));
