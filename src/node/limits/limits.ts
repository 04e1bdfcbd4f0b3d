import * as z from "zod/mini";
import { Duration } from "../../foundation/text.ts";

const count = (usual: number) =>
  z._default(z.int().check(z.minimum(1), z.maximum(1_000_000)), usual);

/** A duration of at least 100 ms and at most 2^31 - 1 ms, the longest timer of Node. */
const duration = (usual: string) =>
  z.prefault(Duration.milliseconds.check(z.minimum(100), z.maximum(2 ** 31 - 1)), usual);

const members = {
  /** Established connections, in all and of one address. */
  connections: count(512),
  connections_per_address: count(128),
  /** Connections whose handshake is under way, in all and of one address. Others wait for their turn. */
  handshakes: count(64),
  handshakes_per_address: count(16),
  /** Milliseconds for a complete handshake, and for the head of a first request. */
  handshake_timeout: duration("10s"),
  /** Requests under way on one connection of HTTP/2, and in all. */
  streams_per_connection: count(100),
  streams: count(2000),
  /** Requests that the process works on at once, in all and of one address. Others wait for their turn. */
  requests_at_work: count(128),
  requests_at_work_per_address: count(32),
  /** Mebibytes of complete or partial requests in memory at once. */
  request_memory: count(16),
  /** Milliseconds in which a complete request must arrive, and in which the peer must read more of a response. */
  progress_timeout: duration("10s"),
  /** Milliseconds after which a connection without a request is closed. */
  idle_timeout: duration("30m"),
  /** Mebibytes that the process may hold before it accepts no more work. */
  memory: z.optional(z.int().check(z.minimum(1), z.maximum(1_000_000))),
};

const schema = z.strictObject(members);

/** The most that callers may hold of one process at once. Addresses are those of {@link CallerAddress.of}. */
export type Limits = Readonly<z.output<typeof schema>>;

/** The table `LIMITS`. docs/reference/limits.md explains its members. */
export const limitsTable = z.prefault(schema, {});

/** The limits of an empty table. */
export const usualLimits: Limits = schema.parse({});

/**
 * The limits of a monitoring port. They are small, because it answers probes and scrapers even while memory is short.
 */
export const monitoringLimits: Limits = {
  ...usualLimits,
  connections: 128,
  streams: 512,
  request_memory: 4,
  memory: Number.POSITIVE_INFINITY,
};

/**
 * How long the rest of a request may take to arrive once its response is known, in milliseconds. The response must be
 * sent before the request reaches `progress_timeout`, so this is a tenth of that.
 */
export const bodyTimeoutOf = ({ progress_timeout }: Limits): number => progress_timeout / 10;

/** How long a turn is kept while an address without a turn waits, in milliseconds: a tenth of the timeout. */
export const turnTimeLimitOf = (timeout: number): number => timeout / 10;

/** The names of the members, in the order of the table in docs/reference/limits.md. */
export const limitNames: readonly string[] = Object.keys(members);

/** The limit that a caller has reached, as the label of the metric. */
export type Limit = keyof Limits | "abuse";

/** Called for each connection or request that a limit refuses or ends. */
export type LimitReached = (limit: Limit) => void;

/**
 * How long an address is banned after abuse that takes much CPU. OpenSSL and Node still process what they have read, so
 * a few addresses could otherwise take all CPU time.
 */
export const longBanMilliseconds = 60_000;
