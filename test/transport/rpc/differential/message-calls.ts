import { octets } from "../../../contract/rpc-calls.ts";
import { withBrokenSignature } from "../../../testkit/callers/workload.ts";
import {
  type DifferentialCall,
  join,
  messageOf,
  overBoth,
  type Sample,
  wire,
} from "./differential-call.ts";

const bodyLimit = 65_536;

/** The unknown field 15, of this many octets with its head. */
function unknownField(length: number): Uint8Array {
  const content = length - 4;
  const head = [0x7a, (content & 0x7f) | 0x80, ((content >> 7) & 0x7f) | 0x80, content >> 14];
  return join(new Uint8Array(head), new Uint8Array(content));
}

const messages: readonly (readonly [string, (sample: Sample) => Uint8Array])[] = [
  ["a message of a workload", (sample) => messageOf(sample)],
  ["an empty message", () => new Uint8Array()],
  ["a message with unknown fields", (sample) => join(messageOf(sample), unknownField(40))],
  ["a message with a field twice", (sample) => join(octets("\n\x01x"), messageOf(sample))],
  ["a message that is junk", () => new Uint8Array(64).fill(0xff)],
  ["half a message", (sample) => messageOf(sample).subarray(0, 100)],
  ["a message with an octet after it", (sample) => join(messageOf(sample), new Uint8Array(1))],
  ["a message with a field of another type", () => new Uint8Array([0x08, 0x01])],
  ["a CSR that is not UTF-8", () => new Uint8Array([0x0a, 0x02, 0xff, 0xfe])],
  ["a CSR that is none", (sample) => messageOf(sample, { csr: "é %" })],
  [
    "a CSR with a broken signature",
    (sample) => messageOf(sample, { csr: withBrokenSignature(sample.csrPem) }),
  ],
  ["a lifetime too long", (sample) => messageOf(sample, { validityDuration: 2n ** 62n })],
  ["an unknown signer", (sample) => messageOf(sample, { metadata: { CertSigner: "x" } })],
  [
    "an identity that the caller may not name",
    (sample) => messageOf(sample, { metadata: { ImpersonatedIdentity: "x" } }),
  ],
];

const bodies = overBoth((protocol) => ({ name: protocol })).flatMap(
  ({ protocol }): DifferentialCall[] => {
    const frame = protocol === "gRPC" ? 5 : 0;
    const bodyOf = (sample: Sample) => wire[protocol](messageOf(sample));
    const padded = (sample: Sample, length: number) => {
      const message = messageOf(sample);
      return [wire[protocol](join(message, unknownField(length - frame - message.length)))];
    };
    return [
      {
        name: "a body in pieces",
        protocol,
        body: (sample) => {
          const body = bodyOf(sample);
          return [body.subarray(0, 3), body.subarray(3, 400), body.subarray(400)];
        },
      },
      {
        name: protocol === "gRPC" ? "no frame" : "no body",
        protocol,
        body: () => [],
      },
      {
        name: "a body of the greatest length",
        protocol,
        body: (sample) => padded(sample, bodyLimit),
      },
      {
        name: "a body of one octet too many",
        protocol,
        body: (sample) => padded(sample, bodyLimit + 1),
      },
      {
        name: "a body that breaks",
        protocol,
        body: async function* (sample) {
          yield bodyOf(sample).subarray(0, 100);
          throw new Error("connection reset");
        },
      },
    ];
  },
);

/** Calls that differ in their message. */
export const messageCalls: readonly DifferentialCall[] = [
  ...messages.flatMap(([name, message]) =>
    overBoth((protocol) => ({
      name,
      body: (sample) => [wire[protocol](message(sample))],
    })),
  ),
  ...bodies,
];
