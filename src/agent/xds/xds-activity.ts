import type { ProtocolName, RequestPeek } from "./discovery-protocol.ts";
import type { SeenResponse } from "./response-scanner.ts";
import type { StreamEnd } from "./xds-stream.ts";

/** The traffic of one type of resources, as text for JSON. */
export interface TypeReport {
  readonly typeUrl: string;
  readonly lastPushAt: string | undefined;
  readonly secondsAgo: number | undefined;
  readonly pushes: number;
  readonly octets: number;
  readonly nacks: number;
}

/** The state of the XDS proxy, as text for JSON. */
export interface XdsReport {
  /** The address of istiod. */
  readonly address: string;
  readonly isConnected: boolean;
  readonly protocol: ProtocolName | undefined;
  readonly connectedSince: string | undefined;
  /** Why the last stream ended, or why there is none. */
  readonly lastEnd:
    | { readonly at: string; readonly by: string; readonly detail: string }
    | undefined;
  readonly types: readonly TypeReport[];
  /** The last time that Envoy rejected what istiod sent. */
  readonly lastNack:
    | { readonly at: string; readonly typeUrl: string; readonly detail: string }
    | undefined;
}

interface TypeActivity {
  lastPush: Date | undefined;
  pushes: number;
  octets: number;
  nacks: number;
}

/** There are about ten types. A peer that invents more is not remembered. */
const maximumTypes = 100;
const longestDetail = 500;

/** Remembers what happens on the streams. */
export class XdsActivity {
  readonly #address: string;
  readonly #clock: () => Date;
  readonly #types = new Map<string, TypeActivity>();
  #connection: { readonly since: Date; readonly protocol: ProtocolName } | undefined;
  #lastEnd: XdsReport["lastEnd"];
  #lastNack: XdsReport["lastNack"];

  constructor(address: string, clock: () => Date) {
    this.#address = address;
    this.#clock = clock;
  }

  /** A new stream has taken the place of the one before. */
  opening(): void {
    this.#connection = undefined;
  }

  connected(protocol: ProtocolName): void {
    this.#connection = { since: this.#clock(), protocol };
  }

  /** @param isCurrent Whether no newer stream has taken its place. */
  ended({ by, status }: StreamEnd, isCurrent: boolean): void {
    if (!isCurrent) return;
    this.#connection = undefined;
    const detail = (status.message || `status ${status.code}`).slice(0, longestDetail);
    this.#lastEnd = { at: this.#clock().toISOString(), by, detail };
  }

  request({ typeUrl, error }: RequestPeek): void {
    if (!error) return;
    const type = this.#typeOf(typeUrl);
    if (type) type.nacks++;
    const detail = error.message.slice(0, longestDetail);
    this.#lastNack = { at: this.#clock().toISOString(), typeUrl, detail };
  }

  response({ typeUrl, octets, isForwarded }: SeenResponse): void {
    const type = isForwarded ? this.#typeOf(typeUrl) : undefined;
    if (!type) return;
    type.pushes++;
    type.octets += octets;
    type.lastPush = this.#clock();
  }

  report(): XdsReport {
    return {
      address: this.#address,
      isConnected: this.#connection !== undefined,
      protocol: this.#connection?.protocol,
      connectedSince: this.#connection?.since.toISOString(),
      lastEnd: this.#lastEnd,
      types: [...this.#types].map(([typeUrl, type]) => this.#reportType(typeUrl, type)),
      lastNack: this.#lastNack,
    };
  }

  #reportType(typeUrl: string, { lastPush, ...counts }: TypeActivity): TypeReport {
    const milliseconds = lastPush && this.#clock().getTime() - lastPush.getTime();
    return {
      typeUrl,
      lastPushAt: lastPush?.toISOString(),
      secondsAgo: milliseconds === undefined ? undefined : Math.round(milliseconds / 1000),
      ...counts,
    };
  }

  #typeOf(typeUrl: string): TypeActivity | undefined {
    const known = this.#types.get(typeUrl);
    if (known || this.#types.size >= maximumTypes) return known;
    const type = { lastPush: undefined, pushes: 0, octets: 0, nacks: 0 };
    this.#types.set(typeUrl, type);
    return type;
  }
}
