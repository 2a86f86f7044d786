// The server, spoken to in JSON; large arrays come as bytes, streams as server-sent events read from a POST.

export class ApiError extends Error {
  constructor({ message, hint, code, param } = {}, status) {
    super(message || `HTTP ${status}`);
    Object.assign(this, { hint, code, param, status });
  }
}

async function answered(response) {
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new ApiError(body.error, response.status);
}

const asking = (body, signal) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });

export async function get(path, signal) {
  return (await answered(await fetch(path, { signal }))).json();
}

export async function post(path, body, signal) {
  return (await answered(await fetch(path, asking(body, signal)))).json();
}

/** Calls on(event, data) for every event as it comes. */
export async function stream(path, body, on, signal) {
  const response = await answered(await fetch(path, asking(body, signal)));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += value ?? "";
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) heard(block, on);
    if (done) return;
  }
}

function heard(block, on) {
  let event = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  if (!data.length) return;
  const body = JSON.parse(data.join("\n"));
  if (event === "error") throw new ApiError(body.error ?? body);
  on(event, body);
}

// Arrays: {dtype, shape, base64} inside JSON, or bytes of their own

const HALF = new Float32Array(65536);
for (let i = 0; i < 65536; i++) {
  const [sign, exponent, fraction] = [i >> 15 ? -1 : 1, (i >> 10) & 31, i & 1023];
  HALF[i] = sign * (exponent === 31 ? (fraction ? NaN : Infinity) : exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

function widened(halves) {
  const out = new Float32Array(halves.length);
  for (let i = 0; i < out.length; i++) out[i] = HALF[halves[i]]; // ten times faster than Float32Array.from
  return out;
}

const TYPES = {
  f32: (buffer) => new Float32Array(buffer),
  f16: (buffer) => widened(new Uint16Array(buffer)),
  u8: (buffer) => new Uint8Array(buffer),
};

/** One head: float16 bytes, their shape in a header; `ms` is how long the page waited. */
export async function matrix(path, body, signal) {
  const response = await answered(await fetch(path, asking(body, signal)));
  const buffer = await response.arrayBuffer();
  const shape = response.headers.get("X-Regard-Shape").split(",").map(Number);
  return { shape, values: TYPES[response.headers.get("X-Regard-Dtype")](buffer), bytes: buffer.byteLength };
}

export function unpacked({ dtype, shape, base64 }) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return { shape, values: TYPES[dtype](bytes.buffer) };
}
