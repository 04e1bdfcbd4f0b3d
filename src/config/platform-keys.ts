import { keepRootCrls } from "../ca/revocation/root-crls.ts";
import type { HeldKeks } from "../custody/kek.ts";
import { awsKey } from "../custody/key-service/aws-kms.ts";
import { azureKey } from "../custody/key-service/azure-key-vault.ts";
import { googleKey } from "../custody/key-service/google-kms.ts";
import { KekLease, type LeaseParts } from "../custody/key-service/kek-lease.ts";
import {
  type Credential,
  KeyServiceError,
  type KeyServiceMeans,
  type KeyServices,
  openKeyServices,
  type ServiceName,
} from "../custody/key-service/key-service.ts";
import { membersOf } from "../custody/key-service/service-call.ts";
import { certifyBelow, serviceRootSigner } from "../custody/key-service/service-root.ts";
import { vaultKey } from "../custody/key-service/vault-transit.ts";
import { messageOf } from "../foundation/errors.ts";
import { jsonIn } from "../foundation/json.ts";

/** What a platform gives for key services, beside what the configuration says. */
interface KeyMeans extends Pick<KeyServiceMeans, "fetch" | "clock"> {
  /** What a machine makes of the credential that the configuration has, or finds where it has none. */
  readonly ofTheMachine?: (
    service: ServiceName,
    given: Credential | undefined,
    audience: string,
  ) => Promise<Credential | undefined>;
}

/** The key services of a platform, how KEKs are held on a lease of them, and what a root in one of them signs. */
export interface PlatformKeys {
  readonly keyServices: KeyServices;
  readonly lease: (parts: LeaseParts) => HeldKeks;
  readonly certifyBelow: typeof certifyBelow;
  readonly serviceRootSigner: typeof serviceRootSigner;
  readonly keepRootCrls: typeof keepRootCrls;
}

/** The texts of secrets by their names, or what reads them. */
type Credentials = ReadonlyMap<string, () => string | Promise<string>>;

export type OpenPlatformKeys = (
  configuration: { readonly clusterCredentials: Credentials },
  means: KeyMeans,
) => PlatformKeys;

/** A Worker whose main module does not name this has nothing of key services in its bundle. */
export const openPlatformKeys: OpenPlatformKeys = (
  { clusterCredentials },
  { fetch, clock, ofTheMachine = async (_, given) => given },
) => {
  const credential = async (service: ServiceName, audience = ""): Promise<Credential> => {
    const name = `KEY_CREDENTIAL_${service.toUpperCase()}`;
    try {
      const given = (await clusterCredentials.get(name)?.())?.trim();
      const found = await ofTheMachine(service, given && credentialIn(given), audience);
      if (found) return found;
    } catch (error) {
      if (error instanceof KeyServiceError) throw error;
      throw new KeyServiceError(`cannot be asked: ${messageOf(error)}`);
    }
    throw new KeyServiceError(`cannot be asked: ${name} is required`);
  };
  const services = { awskms: awsKey, gcpkms: googleKey, azurekms: azureKey, hashivault: vaultKey };
  return {
    keyServices: openKeyServices(services, { fetch, clock, credential }),
    lease: (parts) => new KekLease(parts),
    certifyBelow,
    serviceRootSigner,
    keepRootCrls,
  };
};

/** JSON as its members, and any other text as it is. */
export function credentialIn(text: string): Credential {
  const json = jsonIn(text);
  return typeof json === "object" ? membersOf(json) : text;
}
