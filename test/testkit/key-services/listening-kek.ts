import { onTestFinished } from "vitest";
import { ConfiguredKeks } from "../../../src/config/keks.ts";
import { PlatformKeys } from "../../../src/config/platform-keys.ts";
import { wrapKek } from "../../../src/custody/key-service/operators-keys.ts";
import { awsCredential, awsKeyId, playAws } from "./aws-kms.ts";
import { leasePorts, type PlayedService, startService } from "./key-service.ts";

/** A played service behind a real port. @returns Its host and port */
export async function listenAs(service: PlayedService): Promise<string> {
  const { host, close } = await startService(service);
  onTestFinished(() => void close());
  return host;
}

/** A KEK of the CA `cluster.local` in a service that a program of a test can reach. @returns Its secrets, too */
export async function listenWithKek(): Promise<{
  readonly service: PlayedService;
  readonly secrets: { readonly KEK: string; readonly KEY_CREDENTIAL_AWSKMS: string };
}> {
  const service = await playAws();
  const host = await listenAs(service);
  const { keyServices } = PlatformKeys.open(
    { clusterCredentials: new Map([["KEY_CREDENTIAL_AWSKMS", () => awsCredential]]) },
    { fetch: (url, init) => fetch(url, init), clock: () => new Date(), ...leasePorts },
  );
  const octets = crypto.getRandomValues(new Uint8Array(32));
  const uri = `awskms://${host}/${awsKeyId}`;
  const wrapped = await wrapKek({ id: "k1", octets }, uri, "cluster.local", keyServices);
  service.asked.length = 0;
  const KEK = ConfiguredKeks.format(wrapped);
  return { service, secrets: { KEK, KEY_CREDENTIAL_AWSKMS: awsCredential } };
}
