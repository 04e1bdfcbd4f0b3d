import { ConfiguredKeks } from "../../../src/config/keks.ts";
import { PlatformKeys } from "../../../src/config/platform-keys.ts";
import { wrapKek } from "../../../src/custody/key-service/operators-keys.ts";
import { awsCredential, awsUri, playAws } from "./aws-kms.ts";
import { leasePorts, type PlayedService } from "./key-service.ts";

/** A KEK under a key of a service that a test plays. */
export interface PlayedKek {
  readonly service: PlayedService;
  /** The value of `KEK`. */
  readonly value: string;
  readonly octets: Uint8Array<ArrayBuffer>;
  readonly keyCustodyAt: (clock: () => Date) => PlatformKeys;
  /** Wraps another KEK, by its id. @returns A value of `KEK` */
  readonly wrap: (id: string) => Promise<string>;
}

export async function playWrappedKek(trustDomain = "cluster.local"): Promise<PlayedKek> {
  const service = await playAws();
  const clusterCredentials = new Map([["KEY_CREDENTIAL_AWSKMS", () => awsCredential]]);
  const keyCustodyAt = (clock: () => Date): PlatformKeys =>
    PlatformKeys.open({ clusterCredentials }, { fetch: service.fetch, clock, ...leasePorts });
  const { keyServices } = keyCustodyAt(() => new Date());
  const octets = crypto.getRandomValues(new Uint8Array(32));
  const wrap = async (id: string): Promise<string> =>
    ConfiguredKeks.format(await wrapKek({ id, octets }, awsUri, trustDomain, keyServices));
  const value = await wrap("k1");
  service.asked.length = 0;
  return { service, value, octets, keyCustodyAt, wrap };
}
