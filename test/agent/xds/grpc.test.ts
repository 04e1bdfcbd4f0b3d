import fc from "fast-check";
import { expect, test } from "vitest";
import {
  FrameError,
  Frames,
  isExpected,
  longestMessageOctets,
  messageIn,
  parseStatus,
  statusOfHttp,
  statusOfReset,
  toFrame,
  toTrailers,
} from "../../../src/agent/xds/grpc.ts";

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

test("cuts octets at their frames, however they come", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 50 })),
      lengthsOfPieces,
      (messages, lengths) => {
        const expected = messages.map(toFrame);
        const frames = new Frames("Envoy");
        const got = pieces(Buffer.concat(expected), lengths).flatMap((piece) => frames.take(piece));
        expect(got).toEqual(expected);
        expect(got.map(messageIn)).toEqual(messages.map((each) => Buffer.from(each)));
      },
    ),
  );
});

test.each([[1], [2], [128]])("refuses a frame with the flags %d", (flags) => {
  const frame = toFrame(Buffer.from("abc"));
  frame[0] = flags;
  expect(() => new Frames("Envoy").take(frame)).toThrow(FrameError);
});

test("takes a message of 64 MiB, and refuses a longer one at its head", () => {
  const head = (length: number): Buffer => {
    const octets = Buffer.alloc(5);
    octets.writeUInt32BE(length, 1);
    return octets;
  };
  const frames = new Frames("istiod");
  expect(frames.take(head(longestMessageOctets))).toEqual([]);
  const [frame] = frames.take(Buffer.alloc(64 << 20));
  expect(frame).toHaveLength(5 + (64 << 20));
  expect(() => new Frames("istiod").take(head(longestMessageOctets + 1))).toThrow(
    "a message of istiod has 67108865 octets, and the agent takes 67108864",
  );
});

test.each([
  ["plain: a/b", "plain: a/b"],
  ["100 %", "100 %25"],
  ["a\nb", "a%0ab"],
  ["für", "f%c3%bcr"],
])("writes and reads the message %o", (message, encoded) => {
  const trailers = toTrailers({ code: 7, message, details: "AAAA" });
  expect(trailers).toEqual({
    "grpc-status": "7",
    "grpc-message": encoded,
    "grpc-status-details-bin": "AAAA",
  });
  expect(parseStatus(trailers as Record<string, string>)).toEqual({
    code: 7,
    message,
    details: "AAAA",
  });
});

test("finds no status where there is none, and leaves a message alone that is not encoded as it should be", () => {
  for (const headers of [{}, { "grpc-status": "seven" }, { "grpc-status": "1.5" }])
    expect(parseStatus(headers)).toBeUndefined();
  const message = "100 % of %zz";
  const trailers = { "grpc-status": "2", "grpc-message": message };
  expect(parseStatus(trailers)).toMatchObject({ message });
});

test("statuses of HTTP and errors of HTTP/2 are gRPC's codes", () => {
  const ofHttp = [503, 401, 403, 404, 418].map((status) => statusOfHttp(status).code);
  expect(ofHttp).toEqual([14, 16, 7, 12, 2]);
  const ofResets = [0, 8, 7, 11, 1].map((error) => statusOfReset(error).code);
  expect(ofResets).toEqual([14, 1, 14, 8, 13]);
});

test.each([
  [0, "", true],
  [1, "", true],
  [4, "", true],
  [14, "transport is closing", true],
  [14, "client disconnected", true],
  [14, "error reading from server: EOF", true],
  [14, "connection refused", false],
  [7, "authorization failed", false],
  [13, "", false],
])("tells whether an end with %d %o is expected", (code, message, expected) => {
  expect(isExpected({ code, message })).toBe(expected);
});
