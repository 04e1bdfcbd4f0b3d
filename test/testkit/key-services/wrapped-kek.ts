import { formatWrappedKek } from "../../../src/config/keks.ts";
import { wrapKek } from "../../../src/custody/key-service/kek-lease.ts";
import { type KeyCustody, openKeyCustody } from "../../../src/custody/key-service/key-custody.ts";
import { awsCredential, awsUri, playAws } from "./aws-kms.ts";
import type { PlayedService } from "./key-service.ts";

/** A KEK under a key of a service that a test plays. */
export interface PlayedKek {
  readonly service: PlayedService;
  /** The value of `KEK`. */
  readonly value: string;
  readonly octets: Uint8Array<ArrayBuffer>;
  readonly keyCustodyAt: (clock: () => Date) => KeyCustody;
  /** Wraps another KEK, by its id. @returns A value of `KEK` */
  readonly wrap: (id: string) => Promise<string>;
}

export async function playWrappedKek(trustDomain = "cluster.local"): Promise<PlayedKek> {
  const service = await playAws();
  const clusterCredentials = new Map([["KEY_CREDENTIAL_AWSKMS", () => awsCredential]]);
  const keyCustodyAt = (clock: () => Date): KeyCustody =>
    openKeyCustody({ clusterCredentials }, { fetch: service.fetch, clock });
  const { keyServices } = keyCustodyAt(() => new Date());
  const octets = crypto.getRandomValues(new Uint8Array(32));
  const wrap = async (id: string): Promise<string> =>
    formatWrappedKek(await wrapKek({ id, octets }, awsUri, trustDomain, keyServices));
  const value = await wrap("k1");
  service.asked.length = 0;
  return { service, value, octets, keyCustodyAt, wrap };
}
