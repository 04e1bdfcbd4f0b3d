import { PlatformKeys } from "../../../src/config/platform-keys.ts";
import { awsCredential } from "./aws-kms.ts";
import { azureCredential } from "./azure-key-vault.ts";
import { googleCredential } from "./google-kms.ts";
import { leasePorts, type PlayedService } from "./key-service.ts";
import { vaultToken } from "./vault-transit.ts";

const credentials = {
  KEY_CREDENTIAL_AWSKMS: awsCredential,
  KEY_CREDENTIAL_GCPKMS: googleCredential,
  KEY_CREDENTIAL_AZUREKMS: azureCredential,
  KEY_CREDENTIAL_HASHIVAULT: vaultToken,
};

/** The keys of a CA in a service that a test plays, by these credentials: texts, or what reads them. */
export function playedCustody(
  { fetch }: Pick<PlayedService, "fetch">,
  given: Readonly<Record<string, string | (() => string)>> = credentials,
  clock: () => Date = () => new Date(),
): PlatformKeys {
  const texts = Object.entries(given).map(
    ([name, text]) => [name, typeof text === "string" ? () => text : text] as const,
  );
  return PlatformKeys.open({ clusterCredentials: new Map(texts) }, { fetch, clock, ...leasePorts });
}
