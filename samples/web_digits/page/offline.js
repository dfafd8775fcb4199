// A page that works without its server: all but the model, which edgec-runtime keeps, is kept by a
// service worker.

/** Keep the page's files, and say in `shown` whether they are; `data-offline` of the body, too. */
export async function keep(shown) {
  if (!navigator.serviceWorker) {
    shown.textContent = 'needs HTTPS';
    return;
  }
  try {
    await navigator.serviceWorker.register('sw.js');
    await navigator.serviceWorker.ready;
    shown.textContent = 'ready';
    document.body.dataset.offline = 'ready';
  } catch {
    shown.textContent = 'not here';
  }
}
