import fc from "fast-check";
import { expect, test } from "vitest";
import { discoveryProtocols } from "../../../src/agent/xds/discovery-protocol.ts";
import { FrameError, RequestFrames, toFrame } from "../../../src/agent/xds/grpc-status.ts";
import { ResponseScanner, type SeenResponse } from "../../../src/agent/xds/response-scanner.ts";
import { encode, response, types } from "../../testkit/agent/discovery-messages.ts";
import { paths } from "../../testkit/agent/discovery-peers.ts";

const protocolOf = (name: keyof typeof paths) => {
  const protocol = discoveryProtocols.get(paths[name]);
  if (!protocol) throw new Error(`no protocol ${name}`);
  return protocol;
};

/** Cuts octets into pieces of these lengths, over and over. */
function pieces(octets: Buffer, lengths: readonly number[]): Buffer[] {
  const cut: Buffer[] = [];
  for (let at = 0, n = 0; at < octets.length; n++) {
    const length = lengths[n % lengths.length] ?? 1;
    cut.push(octets.subarray(at, at + length));
    at += length;
  }
  return cut;
}

const lengthsOfPieces = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 });

function scan(
  name: keyof typeof paths,
  chunks: readonly Buffer[],
): { passed: Buffer; seen: SeenResponse[] } {
  const seen: SeenResponse[] = [];
  const scanner = new ResponseScanner(protocolOf(name), (each) => seen.push(each));
  return { passed: Buffer.concat(chunks.flatMap((chunk) => scanner.take(chunk))), seen };
}

test("cuts requests at their frames, however the octets come", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 50 })),
      lengthsOfPieces,
      (messages, lengths) => {
        const expected = messages.map(toFrame);
        const frames = new RequestFrames();
        const got = pieces(Buffer.concat(expected), lengths).flatMap((piece) => frames.take(piece));
        expect(got).toEqual(expected);
      },
    ),
  );
});

test.each([[1], [2], [128]])("refuses a frame with the flags %d", (flags) => {
  const frame = toFrame(Buffer.from("abc"));
  frame[0] = flags;
  expect(() => new RequestFrames().take(frame)).toThrow(FrameError);
  expect(() => scan("incremental", [frame])).toThrow(FrameError);
});

test("refuses a request of more than 64 MiB at its head", () => {
  expect(() => new RequestFrames().take(Buffer.from([0, 4, 0, 0, 1]))).toThrow("too long");
});

test("passes responses on octet for octet, however they come, and reads their types", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(200)), lengthsOfPieces, (sizes, lengths) => {
      const frames = sizes.map((size) => toFrame(response(types.cluster, size)));
      const whole = Buffer.concat(frames);
      const { passed, seen } = scan("incremental", pieces(whole, lengths));
      expect(passed).toEqual(whole);
      expect(seen).toEqual(
        frames.map((frame) => ({
          typeUrl: types.cluster,
          octets: frame.length - 5,
          isForwarded: true,
        })),
      );
    }),
  );
});

test("passes whatever is no protobuf, with no more than a bounded part kept back", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1 }), lengthsOfPieces, (message, lengths) => {
      const { seen } = scan("state-of-the-world", pieces(toFrame(message), lengths));
      expect(seen).toHaveLength(1);
    }),
  );
  const opaque = Buffer.alloc(200_000, 0xff);
  const { passed } = scan("state-of-the-world", pieces(toFrame(opaque), [16_384]));
  expect(passed).toEqual(toFrame(opaque));
});

test.each([
  [types.workload, true],
  ["type.googleapis.com/envoy.unknown.v9.Thing", true],
  [types.nameTable, false],
  ["type.googleapis.com/istio.workload.Workload2", false],
  ["istio.io/debug", false],
])("a response of the type %o reaches Envoy: %s", (typeUrl, isForwarded) => {
  for (const octets of [0, 10, 300_000]) {
    const frame = toFrame(response(typeUrl, octets));
    const { passed, seen } = scan("incremental", pieces(frame, [10_000]));
    expect(seen).toEqual([{ typeUrl, octets: frame.length - 5, isForwarded }]);
    expect(passed.length).toBe(isForwarded ? frame.length : 0);
  }
});

test("goes by the type of the response where that of a resource is another", () => {
  const mixed = encode.fullResponse({
    typeUrl: types.cluster,
    resources: [{ typeUrl: "type.googleapis.com/other.Thing", value: Buffer.alloc(1000) }],
  });
  expect(scan("state-of-the-world", [toFrame(mixed)]).seen).toMatchObject([
    { typeUrl: types.cluster, isForwarded: true },
  ]);
});

test("passes a large response on before it knows its end", () => {
  const frame = toFrame(response(types.cluster, 1_000_000));
  const { passed, seen } = scan("incremental", [frame.subarray(0, 2_000)]);
  expect(passed).toEqual(frame.subarray(0, 2_000));
  expect(seen).toEqual([]);
});

test.each(["incremental", "state-of-the-world"] as const)(
  "reads the type and the fault of a request, %s",
  (name) => {
    const { peek } = protocolOf(name);
    const init = {
      typeUrl: types.listener,
      node: { id: "n".repeat(300) },
      errorDetail: { code: 13, message: "no such filter" },
    };
    const message =
      name === "incremental" ? encode.incrementalRequest(init) : encode.fullRequest(init);
    expect(peek(message)).toEqual({
      typeUrl: types.listener,
      error: { code: 0, message: "no such filter" },
    });
    expect(peek(Buffer.from([0xff, 0xff]))).toEqual({ typeUrl: "", error: undefined });
  },
);
