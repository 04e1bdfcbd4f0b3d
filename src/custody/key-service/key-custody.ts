import { messageOf } from "../../foundation/errors.ts";
import type { HeldKeks } from "../kek.ts";
import { KekLease, type LeaseParts } from "./kek-lease.ts";
import { KeyServiceError, type KeyServiceMeans, type ServiceName } from "./key-service.ts";
import { type KeyServices, openKeyServices } from "./key-services.ts";
import { certifyBelow, serviceRootSigner } from "./service-root.ts";

/** What a platform gives for key services, beside what the configuration says. */
interface CustodyMeans extends Pick<KeyServiceMeans, "fetch" | "clock"> {
  /**
   * What a machine makes of the credential that the configuration has, or finds where it has none.
   *
   * @throws KeyServiceError
   */
  readonly ofTheMachine?: (
    service: ServiceName,
    given: string | undefined,
    audience: string,
  ) => Promise<string | undefined>;
}

/** The key services of a platform, and how KEKs are held on a lease of them. */
export interface KeyCustody {
  readonly keyServices: KeyServices;
  readonly lease: (parts: LeaseParts) => HeldKeks;
  readonly certifyBelow: typeof certifyBelow;
  readonly serviceRootSigner: typeof serviceRootSigner;
}

/** The texts of secrets by their names, or what reads them. */
type Credentials = ReadonlyMap<string, () => string | Promise<string>>;

/** Makes the key services of a configuration; a main module without them is smaller. */
export type OpenKeyCustody = (
  configuration: { readonly clusterCredentials: Credentials },
  means: CustodyMeans,
) => KeyCustody;

export const openKeyCustody: OpenKeyCustody = (
  { clusterCredentials },
  { fetch, clock, ofTheMachine = async (_, given) => given },
) => {
  const credential = async (service: ServiceName, audience = ""): Promise<string> => {
    const name = `KEY_CREDENTIAL_${service.toUpperCase()}`;
    try {
      const given = await clusterCredentials.get(name)?.();
      const text = await ofTheMachine(service, given, audience);
      if (text !== undefined) return text;
    } catch (error) {
      if (error instanceof KeyServiceError) throw error;
      throw new KeyServiceError(`cannot be asked: ${messageOf(error)}`);
    }
    throw new KeyServiceError(`cannot be asked: ${name} is required`);
  };
  return {
    keyServices: openKeyServices({ fetch, clock, credential }),
    lease: (parts) => new KekLease(parts),
    certifyBelow,
    serviceRootSigner,
  };
};
