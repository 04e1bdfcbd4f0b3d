import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { onTestFinished } from "vitest";

/** The header of an HTTP/2 frame (RFC 9113 §4.1). */
export interface FrameHead {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  /** Present in RST_STREAM and GOAWAY. */
  readonly errorCode: number | undefined;
}

export const frameType = { data: 0, headers: 1, rstStream: 3, goaway: 7 } as const;
export const endStream = 1;

/** Forwards connections without TLS to a port, and records the server's frames. */
export async function tapFrames(
  target: number,
): Promise<{ readonly port: number; readonly heard: readonly FrameHead[] }> {
  const heard: FrameHead[] = [];
  const server = createServer((near) => {
    const far = connect(target, "127.0.0.1");
    for (const socket of [near, far]) socket.on("error", () => socket.destroy());
    near.pipe(far).pipe(near);
    let rest = Buffer.alloc(0);
    far.on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (;;) {
        const length = rest.length < 9 ? Number.POSITIVE_INFINITY : 9 + rest.readUIntBE(0, 3);
        if (rest.length < length) return;
        heard.push(headOf(rest));
        rest = rest.subarray(length);
      }
    });
    onTestFinished(() => void near.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, heard };
}

function headOf(frame: Buffer): FrameHead {
  const type = frame.readUInt8(3);
  const codeAt = new Map<number, number>([
    [frameType.rstStream, 9],
    [frameType.goaway, 13],
  ]).get(type);
  const errorCode = codeAt === undefined ? undefined : frame.readUInt32BE(codeAt);
  return { type, flags: frame.readUInt8(4), streamId: frame.readUInt32BE(5), errorCode };
}
