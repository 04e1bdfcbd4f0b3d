import { type DifferentialCall, never } from "./differential-call.ts";

const valid = {
  Connect: ["30000", "0000030000", "2147483647", "2147483648", "4294967296", "9999999999"],
  gRPC: [
    ...["1H", "30M", "30S", "30000m", "99999999u", "00000030S"],
    ...["2147483S", "2147484S", "99999999S", "99999999M", "99999999H"],
  ],
} as const;

/** Each of these has passed before the call begins. */
const passed = {
  Connect: ["0", "0000000000"],
  gRPC: ["0H", "0M", "0S", "0m", "0u", "0n"],
} as const;

/** Each of these passes while the call waits. */
const short = { Connect: ["1", "20"], gRPC: ["20m", "20000u", "1u", "99999999n", "1n"] } as const;

const invalid = {
  Connect: ["", "soon", "-1", "+1", "1.5", "1e3", "0x10", "1s", "10000000000"],
  gRPC: [
    ...["", "soon", "-1S", "+1S", "1.5S", "1", "S", "1s", "1h", "1 S", "1ms"],
    ...["100000000S", "999999999n"],
  ],
} as const;

const header = { Connect: "connect-timeout-ms", gRPC: "grpc-timeout" } as const;
const protocols = ["Connect", "gRPC"] as const;

function callsOf(
  what: string,
  values: typeof valid | typeof passed | typeof short | typeof invalid,
  more: Pick<DifferentialCall, "isFast" | "authenticate"> = {},
): DifferentialCall[] {
  return protocols.flatMap((protocol) =>
    values[protocol].map((value) => ({
      name: `${what} timeout «${value}»`,
      protocol,
      headers: [[header[protocol], value]],
      ...more,
    })),
  );
}

/** Calls that differ in their timeout. */
export const timeoutCalls: readonly DifferentialCall[] = [
  ...callsOf("a", valid),
  ...callsOf("a passed", passed),
  ...callsOf("a short", short, { authenticate: () => () => never }),
  ...callsOf("an invalid", invalid, { isFast: false }),
  ...protocols.flatMap((protocol): DifferentialCall[] => [
    {
      name: "an invalid timeout of the other protocol",
      protocol,
      headers: [[header[protocol === "gRPC" ? "Connect" : "gRPC"], "soon"]],
    },
    {
      name: "a timeout that comes twice",
      protocol,
      isFast: false,
      headers: [
        [header[protocol], protocol === "gRPC" ? "30S" : "30000"],
        [header[protocol], protocol === "gRPC" ? "30S" : "30000"],
      ],
    },
    {
      name: "a timeout that passes while the body does not come",
      protocol,
      // At once, so that the time cannot be up before the body is asked for.
      authenticate:
        ({ known }) =>
        async () =>
          known,
      headers: [[header[protocol], protocol === "gRPC" ? "20m" : "20"]],
      body: async function* () {
        yield new Uint8Array([0]);
        await never;
      },
    },
  ]),
];
