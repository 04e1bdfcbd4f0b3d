import { once } from "node:events";
import { connect } from "node:http2";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { bearer, grpcFrame } from "../../contract/rpc-calls.ts";
import { issuerTables, rpcPath } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../testkit/callers/tokens.ts";
import {
  endStream,
  type FrameHead,
  frameType,
  tapFrames,
} from "../../testkit/network/frame-tap.ts";
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
  const ofStream = heard.filter(({ streamId }) => streamId === 1).filter(isNoWindow);
  return ofStream.slice(ofStream.findIndex(({ flags }) => (flags & endStream) !== 0));
}

const windowUpdate = 8;
const isNoWindow = ({ type }: FrameHead): boolean => type !== windowUpdate;

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
    expect(end?.flags).toSatisfy((flags: number) => (flags & endStream) !== 0);
    expect(more).toEqual([]);
  });

  test("does not wait for all of a larger one, which is reset after the answer", async () => {
    const [end, ...more] = await endOfAnswer(path, contentType, 8_000_000);
    expect(end?.flags).toSatisfy((flags: number) => (flags & endStream) !== 0);
    expect(more).toMatchObject([{ type: frameType.rstStream, errorCode: 0 }]);
  });
});
