import { once } from "node:events";
import { connect, constants } from "node:http2";
import { type AddressInfo, connect as connectTcp, createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { bearer, grpcFrame } from "../../contract/rpc-calls.ts";
import { issuerTables, rpcPath } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../testkit/callers/tokens.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

let served: ServedCa;
let key: TokenKey;

beforeAll(async () => {
  key = await createTokenKey("ES256", "k1");
  served = await serveCa({
    PLAINTEXT_LISTEN: "127.0.0.1:0",
    // A slow machine may stop this process while the rest of a request is on its way.
    LIMITS: { progress_timeout: `${hangMilliseconds / 1000}s` },
    ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(key) }],
  });
});

afterAll(() => served.end());

/** The header of an HTTP/2 frame, and the code of an RST_STREAM (RFC 9113 §4.1, §6.4). */
const frameHead = (frame: Buffer) => ({
  type: frame.readUInt8(3),
  flags: frame.readUInt8(4),
  streamId: frame.readUInt32BE(5),
  errorCode: frame.readUInt8(3) === rstStream ? frame.readUInt32BE(9) : undefined,
});
const [rstStream, windowUpdate] = [3, 8];

/** Forwards connections without TLS to a port, and records the server's frames. */
async function tapFrames(target: number) {
  const heard: ReturnType<typeof frameHead>[] = [];
  const server = createServer((near) => {
    const far = connectTcp(target, "127.0.0.1");
    for (const socket of [near, far]) socket.on("error", () => socket.destroy());
    near.pipe(far).pipe(near);
    let rest = Buffer.alloc(0);
    far.on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (;;) {
        const length = rest.length < 9 ? Number.POSITIVE_INFINITY : 9 + rest.readUIntBE(0, 3);
        if (rest.length < length) return;
        heard.push(frameHead(rest));
        rest = rest.subarray(length);
      }
    });
    onTestFinished(() => void near.destroy());
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, heard };
}

const endsStream = (flags: number): boolean => (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;

/** The server's frames of a stream, from the one that ends its answer. */
async function endOfAnswer(path: string, contentType: string, octets: number) {
  const { port, heard } = await tapFrames(served.server.plaintextAddress?.port ?? 0);
  const session = connect(`http://127.0.0.1:${port}`);
  onTestFinished(() => session.destroy());
  const credential = await bearer({ key, now: () => new Date() });
  const headers = { ...credential, "content-type": contentType };
  const stream = session.request({ ":method": "POST", ":path": path, ...headers });
  stream.resume().end(grpcFrame(new Uint8Array(octets)));
  await once(stream, "close");
  // The connection is as good as before.
  const next = session.request({ ":path": "/healthz" });
  const [answer] = await once(next.resume(), "response");
  expect(answer[":status"]).toBe(200);
  const ofStream = heard.filter(({ streamId, type }) => streamId === 1 && type !== windowUpdate);
  return ofStream.slice(ofStream.findIndex(({ flags }) => endsStream(flags)));
}

/**
 * The sizes leave no more than one message to read when the answer is known. Native gRPC has read a message by
 * then, gRPC-Web the beginning of one, other routes nothing.
 */
describe.each([
  ["native gRPC", rpcPath, "application/grpc", 120_000],
  ["gRPC-Web", rpcPath, "application/grpc-web+proto", 66_000],
  ["no RPC", "/healthz", "text/plain", 65_000],
])("an answer over %s to a request that is still being sent", (_, path, contentType, octets) => {
  test("waits for the rest", async () => {
    const [end, ...more] = await endOfAnswer(path, contentType, octets);
    expect(end?.flags).toSatisfy(endsStream);
    expect(more).toEqual([]);
  });

  test("does not wait for all of a larger one, which is reset after the answer", async () => {
    const [end, ...more] = await endOfAnswer(path, contentType, 8_000_000);
    expect(end?.flags).toSatisfy(endsStream);
    expect(more).toMatchObject([{ type: rstStream, errorCode: 0 }]);
  });
});
