import { grpcFrame } from "../../../contract/rpc-calls.ts";
import { type DifferentialCall, join, messageOf, type Sample } from "./differential-call.ts";

/** A frame whose head announces a length of its own. */
function announcing(length: number, message: Uint8Array, flags = 0): Uint8Array {
  const frame = grpcFrame(message, flags);
  new DataView(frame.buffer).setUint32(1, length);
  return frame;
}

const whole = (sample: Sample, flags = 0) => grpcFrame(messageOf(sample), flags);
const gzipped = new Uint8Array([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

type Body = (sample: Sample) => Uint8Array;

/** The whole message, and something behind it. */
const before =
  (rest: Body): Body =>
  (sample) =>
    join(whole(sample), rest(sample));
const empty = (flags = 0) => grpcFrame(new Uint8Array(), flags);
const malformed = () => grpcFrame(new Uint8Array(9));
const part = (octets: number, flags?: number) => (sample: Sample) =>
  whole(sample, flags).subarray(0, octets);
const tooLong = 0x7fff_ffff;

const frames: readonly (readonly [string, Body])[] = [
  ["half a frame's head", () => new Uint8Array(3)],
  ["half a frame", part(100)],
  ["two messages", before(whole)],
  ["two messages, the second empty", before(() => empty())],
  ["two messages, the first malformed", (sample) => join(malformed(), whole(sample))],
  ["two messages, the second malformed", before(malformed)],
  ["an octet after the message", before(() => new Uint8Array(1))],
  ["half a frame after the message", before(part(9))],
  ["the head of a frame alone", part(5)],
  ["the head of a frame after the message", before(part(5))],
  ["a frame too long after the message", before(() => announcing(tooLong, new Uint8Array(1)))],
  ["a frame that announces too much", () => announcing(tooLong, new Uint8Array(16))],
  ["a frame that announces all that a head can", () => announcing(0xffff_ffff, new Uint8Array(16))],
  ["a frame that announces an octet too many", () => announcing(65_537, new Uint8Array(9))],
  ["a frame that announces the limit and is shorter", () => announcing(65_536, new Uint8Array(9))],
  ["a compressed frame without an encoding", (sample) => whole(sample, 1)],
  ["a compressed frame and an octet", (sample) => join(whole(sample, 1), new Uint8Array(1))],
  ["half a compressed frame", part(100, 1)],
  ["a compressed frame that announces too much", () => announcing(65_537, new Uint8Array(9), 1)],
  ["a compressed empty frame", () => empty(1)],
  ["a frame with a reserved flag", (sample) => whole(sample, 2)],
  ["a frame with every reserved flag", (sample) => whole(sample, 0xfe)],
  ["a compressed frame with a reserved flag", (sample) => whole(sample, 3)],
  ["a reserved flag that announces too much", () => announcing(65_537, new Uint8Array(9), 2)],
  ["half a frame with a reserved flag", part(100, 2)],
  ["a reserved flag in half a head", () => new Uint8Array([2, 0, 0])],
  ["a reserved flag after the message", before((sample) => whole(sample, 2))],
  ["a frame of trailers", (sample) => whole(sample, 0x80)],
  ["compressed trailers after the message", before((sample) => whole(sample, 0x81))],
  ["trailers after the message", before(() => empty(0x80))],
];

/** Calls over gRPC that differ in their frames. */
export const frameCalls: readonly DifferentialCall[] = [
  ...frames.map(
    ([name, body]): DifferentialCall => ({
      name,
      protocol: "gRPC",
      body: (sample) => [body(sample)],
    }),
  ),
  {
    name: "a compressed frame in gzip",
    protocol: "gRPC",
    isFast: false,
    headers: [["grpc-encoding", "gzip"]],
    body: () => [grpcFrame(gzipped, 1)],
  },
];
