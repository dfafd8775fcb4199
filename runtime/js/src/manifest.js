// The manifest of a package, which is anybody's text, to the variants that it lists.
import { EdgeError } from './errors.js';

const SCHEMA = 1;

/** Whether a value is there and of the wrong kind. */
const isOff = (value, fits) => value !== undefined && value !== null && !fits(value);

const isText = (value) => typeof value === 'string';
const isSize = (value) => Number.isSafeInteger(value) && value >= 0;
const isTexts = (value) => Array.isArray(value) && value.every(isText);
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isInside = (file) => isText(file) && file !== '' && !/^[/?#]|^[a-z][a-z0-9+.-]*:|\.\.|\\/i.test(file);

/** What a manifest's bytes list, best first, with the addresses of the files beside `url`. */
export function variantsIn(bytes, url) {
  const fail = (code, problem) => { throw new EdgeError(code, `${url} ${problem}`); };
  let manifest;
  try {
    manifest = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    fail('DAMAGED', 'is no JSON');
  }
  if (manifest?.schema !== SCHEMA || !Array.isArray(manifest.variants))
    fail('UNSUPPORTED',
      `is no manifest of format ${SCHEMA}: make the package again, or take the runtime beside it`);
  const base = /^[a-z][a-z0-9+.-]+:/i.test(url) ? url : undefined;
  const folder = url.replace(/[^/]*$/, '');

  /** A file of the package. */
  const place = (listed) => {
    if (!isObject(listed) || isOff(listed.sha256, isText) || isOff(listed.size, isSize))
      fail('DAMAGED', 'is no manifest of a package');
    const { file, sha256, size } = listed;
    if (!isInside(file)) fail('DAMAGED', `names a file outside the package: ${file}`);
    return {
      url: base ? new URL(file, base).href : `${folder}${file}`,
      integrity: sha256 ?? undefined,
      size: size ?? undefined,
    };
  };

  const weights = isOff(manifest.weights, isObject) || manifest.weights
    ? place(manifest.weights) : undefined;
  return manifest.variants.map((listed) => {
    const placed = place(listed);
    const { target, needs = {} } = listed;
    if (isOff(target, isText) || !isObject(needs) || isOff(needs.device, isText)
      || isOff(needs.features, isTexts)) fail('DAMAGED', 'is no manifest of a package');
    return {
      ...placed,
      weights,
      name: target ?? undefined,
      device: needs.device ?? undefined,
      needs: needs.features ?? undefined,
    };
  });
}
