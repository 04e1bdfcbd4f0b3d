import { readFileSync } from "node:fs";
import * as z from "zod/mini";

/** The costs and bounds of servers, and prices. Times are CPU in microseconds. */
export interface StormParameters {
  readonly lifetimeSeconds: number;
  readonly latencyMilliseconds: number;
  /** A certificate: of the Worker over gRPC-Web, of `serve` with one process and with two. */
  readonly workerMicroseconds: number;
  readonly serveMicroseconds: number;
  readonly serveTwiceMicroseconds: number;
  /** What a connection of its own adds to a certificate of `serve`, and what one costs that finds no place. */
  readonly connectionMicroseconds: number;
  readonly refusalMicroseconds: number;
  /** Bounds of one process. */
  readonly connectionPlaces: number;
  readonly streamPlaces: number;
  readonly backlog: number;
  readonly prices: Prices;
}

/** Prices in dollars. */
export interface Prices {
  readonly requestMillion: number;
  readonly cpuMillisecondMillion: number;
  readonly kvReadMillion: number;
  readonly coreHour: number;
}

const peersForm = z.object({
  costs: z.array(
    z.object({ name: z.string(), api: z.string(), rootKey: z.string(), microseconds: z.number() }),
  ),
});

const peersFile = new URL("../../../docs/pictures/peers.json", import.meta.url);

/** The parameters of today. Certificates cost what `npm run bench:peers` measured last. */
export function loadParameters(): StormParameters {
  const { costs } = peersForm.parse(JSON.parse(readFileSync(peersFile, "utf8")));
  const costOf = (name: string, api: string): number => {
    const cost = costs.find((each) => {
      return each.name === name && each.api.startsWith(api) && each.rootKey === "EC-P256";
    });
    if (!cost) throw new Error(`docs/pictures/peers.json has no row for ${name}, ${api}`);
    return Math.round(cost.microseconds);
  };
  return {
    lifetimeSeconds: 86_400,
    latencyMilliseconds: 50,
    workerMicroseconds: costOf("Rampart, the Worker in workerd", "gRPC-Web"),
    serveMicroseconds: costOf("Rampart, `serve`", "native gRPC"),
    serveTwiceMicroseconds: costOf("Rampart, `serve`, 2 processes", "native gRPC"),
    // Measured once, on a busy machine, with gRPC over TLS: 906 µs for a certificate on a kept connection,
    // 3,785 µs on one of its own, 252 µs for a connection without a call. Medians of 15 rounds of 80.
    connectionMicroseconds: 2_880,
    refusalMicroseconds: 250,
    // `handshakes` with the four times as many that may wait, and `streams` (docs/reference/limits.md).
    connectionPlaces: 320,
    streamPlaces: 2_000,
    // The default of Node's `listen`.
    backlog: 511,
    // Cloudflare's paid plan beyond what it includes, and about what a core of a rented machine costs.
    prices: {
      requestMillion: 0.3,
      cpuMillisecondMillion: 0.02,
      kvReadMillion: 0.5,
      coreHour: 0.04,
    },
  };
}
