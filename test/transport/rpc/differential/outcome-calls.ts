import { Code, ConnectError } from "@connectrpc/connect";
import { CaError } from "../../../../src/foundation/errors.ts";
import { IstioCertificateRequestSchema } from "../../../../src/gen/istio/v1/auth/ca_pb.ts";
import {
  type DifferentialCall,
  join,
  messageOf,
  never,
  overBoth,
  wire,
} from "./differential-call.ts";

const failing = (error: unknown) => () => () => Promise.reject(error);

const failures: readonly (readonly [string, unknown])[] = [
  ["a fault", new TypeError("secret")],
  ["a fault that is no error", "secret"],
  ["a store that is away", new CaError({ reason: "store-unreachable" }, "down")],
  [
    "a quota that is used up",
    new CaError({ reason: "quota-exceeded", quota: "caller", retryAfterSeconds: 7 }, "too often"),
  ],
  ["an error of ASCII", new ConnectError("~!*'() 100% a/b?c=d&e", Code.Aborted)],
  ["an error beyond ASCII", new ConnectError("é 漢 🔑 %C3", Code.AlreadyExists)],
  ["an error of several lines", new ConnectError("a\r\ngrpc-status: 0\u0000\u007f", Code.DataLoss)],
  ["an error without a message", new ConnectError("", Code.NotFound)],
  [
    "an error with details",
    new ConnectError("detailed", Code.OutOfRange, undefined, [
      { desc: IstioCertificateRequestSchema, value: { csr: "x" } },
    ]),
  ],
  ["an error with metadata", new ConnectError("with metadata", Code.Unknown, { "x-retry": "1" })],
];

const credentials: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  ["an empty credential", [["authorization", ""]]],
  ["a credential that is junk", [["authorization", "Bearer junk"]]],
  [
    "two credentials",
    [
      ["authorization", "Bearer junk"],
      ["authorization", "Bearer junk"],
    ],
  ],
];

const hangUps = overBoth((protocol) => ({
  name: "a caller who has hung up before",
  hasHungUp: true,
  body: (sample) => [wire[protocol](messageOf(sample))],
})).concat(
  overBoth(() => ({
    name: "a caller who hangs up while it is authenticated",
    authenticate:
      ({ hangUp }) =>
      () => {
        setTimeout(hangUp, 0);
        return never;
      },
  })),
  overBoth((protocol) => ({
    name: "a caller who hangs up in the middle of the body",
    body: async function* (sample) {
      yield wire[protocol](messageOf(sample)).subarray(0, 100);
      setTimeout(sample.hangUp, 0);
      await never;
    },
  })),
);

/** Calls that end in different ways, whatever their message. */
export const outcomeCalls: readonly DifferentialCall[] = [
  ...failures.flatMap(([name, error]) => overBoth(() => ({ name, authenticate: failing(error) }))),
  ...credentials.flatMap(([name, headers]) => overBoth(() => ({ name, headers }))),
  ...overBoth((protocol) => ({
    name: "a credential that is junk, and a body that is, too",
    headers: [["authorization", "Bearer junk"]],
    body: () => [join(wire[protocol](new Uint8Array(9)), new Uint8Array(9))],
  })),
  ...hangUps,
];
