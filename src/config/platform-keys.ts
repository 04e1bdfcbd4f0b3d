import { keepRootCrls } from "../ca/revocation/keep-root-crls.ts";
import type { HeldKeks } from "../custody/kek.ts";
import { awsKey } from "../custody/key-service/aws-kms.ts";
import { azureKey } from "../custody/key-service/azure-key-vault.ts";
import { googleKey } from "../custody/key-service/google-kms.ts";
import { KekLease, type LeaseParts } from "../custody/key-service/kek-lease.ts";
import {
  type Credential,
  type KeyServiceContext,
  KeyServiceError,
  KeyServices,
  type ServiceName,
} from "../custody/key-service/key-service.ts";
import { certifyBelow, serviceRootSigner } from "../custody/key-service/service-root.ts";
import { vaultKey } from "../custody/key-service/vault-transit.ts";
import { messageOf } from "../foundation/errors.ts";
import { jsonIn, Members } from "../foundation/json-members.ts";

type LeasePorts = Pick<LeaseParts, "monotonic" | "random">;

/** What a platform gives for key services, beside what the configuration says. */
interface KeyContext extends Pick<KeyServiceContext, "fetch" | "clock">, LeasePorts {
  /** Completes the credential of the configuration on this machine, or finds one if the configuration has none. */
  readonly ofTheMachine?: (
    service: ServiceName,
    given: Credential | undefined,
    audience: string,
  ) => Promise<Credential | undefined>;
}

/** The key services of a platform, with the leases of KEKs and the roots whose keys are in one. */
export interface PlatformKeys {
  readonly keyServices: KeyServices;
  readonly lease: (parts: Omit<LeaseParts, keyof LeasePorts>) => HeldKeks;
  readonly certifyBelow: typeof certifyBelow;
  readonly serviceRootSigner: typeof serviceRootSigner;
  readonly keepRootCrls: typeof keepRootCrls;
}

/** The texts of secrets by their names, or what reads them. */
type Credentials = ReadonlyMap<string, () => string | Promise<string>>;

/** Opens a platform's key services with the credentials of a configuration. */
export type OpenPlatformKeys = (
  configuration: { readonly clusterCredentials: Credentials },
  means: KeyContext,
) => PlatformKeys;

/** Opens the keys of a platform. */
export const PlatformKeys = {
  /** Opens key services. A Worker's script has their code only if its main module names this function. */
  open: ((
    { clusterCredentials },
    { fetch, clock, monotonic, random, ofTheMachine = async (_, given) => given },
  ) => {
    const credential = async (service: ServiceName, audience = ""): Promise<Credential> => {
      const name = `KEY_CREDENTIAL_${service.toUpperCase()}`;
      try {
        const given = (await clusterCredentials.get(name)?.())?.trim();
        const found = await ofTheMachine(
          service,
          given && PlatformKeys.credentialIn(given),
          audience,
        );
        if (found) return found;
      } catch (error) {
        if (error instanceof KeyServiceError) throw error;
        throw new KeyServiceError(`cannot be asked: ${messageOf(error)}`);
      }
      throw new KeyServiceError(`cannot be asked: ${name} is required`);
    };
    const services = {
      awskms: awsKey,
      gcpkms: googleKey,
      azurekms: azureKey,
      hashivault: vaultKey,
    };
    return {
      keyServices: KeyServices.open(services, { fetch, clock, credential }),
      lease: (parts) => new KekLease({ ...parts, monotonic, random }),
      certifyBelow,
      serviceRootSigner,
      keepRootCrls,
    };
  }) satisfies OpenPlatformKeys,

  /** The members of a JSON object; any other text unchanged. */
  credentialIn(text: string): Credential {
    const json = jsonIn(text);
    return typeof json === "object" ? Members.of(json) : text;
  },
};
