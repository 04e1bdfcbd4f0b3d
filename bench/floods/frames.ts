/** The frames of HTTP/2 (RFC 9113 §4.1, §6) that no client library would send like this. */

const types = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  ping: 6,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const preface: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

export const settingsFrame: Buffer = frame(types.settings, 0, 0, Buffer.alloc(0));

/** Settings and an update of the connection's window (§6.5.2, §6.9): the peer may send as much as it has. */
export const hugeWindow: Buffer = Buffer.concat([
  frame(types.settings, 0, 0, Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff])),
  frame(types.windowUpdate, 0, 0, Buffer.from([0x7f, 0xff, 0, 0])),
]);
export const pingFrame: Buffer = frame(types.ping, 0, 0, Buffer.alloc(8));

/** A frame without a payload, which no window of flow control bounds. */
export const dataFrame = (stream: number): Buffer => frame(types.data, 0, stream, Buffer.alloc(0));

/** HPACK (RFC 7541 §6.1, §6.2.2): `:method GET`, `:scheme https`, `:path`, `:authority a`. */
const fieldsOf = (path: string): Buffer =>
  Buffer.concat([Buffer.from([0x82, 0x87]), literal(0x04, path), literal(0x01, "a")]);

const fields = fieldsOf("/bundle.pem");

function literal(nameIndex: number, value: string): Buffer {
  return Buffer.concat([Buffer.from([nameIndex, value.length]), Buffer.from(value)]);
}

/** Literals with names of their own, 200 octets each, none indexed. */
const padding = Buffer.concat(
  Array.from({ length: 70 }, (_, i) => {
    const [name, value] = [`x-${i % 10}`, "a".repeat(100)];
    return Buffer.concat([
      Buffer.from([0, name.length]),
      Buffer.from(name),
      Buffer.from([value.length]),
      Buffer.from(value),
    ]);
  }),
);

const endHeaders = 0x04;
const endStream = 0x01;
const cancel = Buffer.from([0, 0, 0, 8]);

/** The head of a request, with its reset behind it, or with a block of fields that goes on and on. */
export function headersFrame(
  stream: number,
  { reset = false, isContinued = false, isFirst = true, isWhole = false, path = "" } = {},
): Buffer {
  if (isContinued) {
    return isFirst
      ? frame(types.headers, 0, stream, fields)
      : frame(types.continuation, 0, stream, padding);
  }
  const block = path === "" ? fields : fieldsOf(path);
  const head = frame(types.headers, endHeaders | (reset || isWhole ? endStream : 0), stream, block);
  return reset ? Buffer.concat([head, frame(types.reset, 0, stream, cancel)]) : head;
}
