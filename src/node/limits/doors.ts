import { addressBehind, addressOf } from "../../foundation/addresses.ts";
import { waitBriefly } from "../../program/promise-sharing.ts";
import { forwardedPeerHeader, gatewayHeader } from "../../transport/rpc/rpc.ts";

/** The headers of a request, as Node gives them. */
export type ArrivedHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The name of the listed gateway that a credential proves; `undefined` for any other. */
export type ProveGateway = (authorization: string) => Promise<string | undefined>;

/** What is known of a credential, and until when. */
interface Verdict {
  readonly door: string | undefined;
  readonly renewAt: number;
  readonly until: number;
}

/** Milliseconds: a gateway is proved anew after some time, and counts as one meanwhile. */
const renewal = 30_000;
const memory = { gateway: 60_000, other: 5_000 };

/** The most credentials that are remembered: of one gateway, whose pods each have one, and of others. */
const maximumOfDoor = 64;

/** An IPv6 address with its zone is shorter. */
const longestAddress = 64;

/** A token is shorter by far, and strangers choose the others. */
const maximumLength = 4096;

/**
 * The gateways that forward calls. Each is a door: its calls count by the address of the caller behind it, and all
 * together are one network. Nobody is one without a credential that the CA accepts from a listed gateway.
 */
export class Doors {
  readonly #prove: ProveGateway;
  readonly #clock: () => number;
  readonly #verdicts = new Map<string, Verdict>();
  readonly #judging = new Set<string>();

  /** @param clock In milliseconds; it never goes back. */
  constructor(prove: ProveGateway, clock: () => number) {
    this.#prove = prove;
    this.#clock = clock;
  }

  /** The door through which a request came, if its credential is known, and the address by which it counts. */
  through(
    headers: ArrivedHeaders,
  ): { readonly door: string; readonly address: string } | undefined {
    const door = this.#verdictOn(credentialIn(headers))?.door;
    if (door === undefined) return undefined;
    const forwarded = headers[forwardedPeerHeader];
    const isAddress = typeof forwarded === "string" && forwarded.length <= longestAddress;
    const caller = isAddress ? addressOf(forwarded) : "";
    return { door, address: addressBehind(door, caller) };
  }

  /** What has to be done in the turn of a request before its credential is known. */
  proofOf(headers: ArrivedHeaders): (() => Promise<void>) | undefined {
    const credential = credentialIn(headers);
    if (credential === undefined || this.#judging.has(credential)) return undefined;
    const known = this.#verdictOn(credential);
    if (known && this.#clock() < known.renewAt) return undefined;
    // Its issuer may be slow, and the call may be another's.
    return () => waitBriefly(this.#judge(credential));
  }

  #verdictOn(credential: string | undefined): Verdict | undefined {
    const known = credential === undefined ? undefined : this.#verdicts.get(credential);
    return known && this.#clock() < known.until ? known : undefined;
  }

  async #judge(credential: string): Promise<void> {
    if (this.#judging.has(credential)) return;
    this.#judging.add(credential);
    try {
      this.#remember(credential, await this.#prove(credential));
    } finally {
      this.#judging.delete(credential);
    }
  }

  #remember(credential: string, door: string | undefined): void {
    const now = this.#clock();
    const lasts = door === undefined ? memory.other : memory.gateway;
    this.#verdicts.delete(credential);
    const same = [...this.#verdicts].filter(([, verdict]) => verdict.door === door);
    // What a gateway shows never displaces what is known of another.
    const [oldest] = same.length < maximumOfDoor ? [] : same;
    if (oldest) this.#verdicts.delete(oldest[0]);
    const renewAt = now + Math.min(lasts, renewal);
    this.#verdicts.set(credential, { door, renewAt, until: now + lasts });
  }
}

function credentialIn({ [gatewayHeader]: credential }: ArrivedHeaders): string | undefined {
  const isOne = typeof credential === "string" && credential.length <= maximumLength;
  return isOne ? credential : undefined;
}
