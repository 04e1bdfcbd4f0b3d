import type { Configuration } from "../../config/configuration.ts";
import { holdKeks } from "../../config/keks.ts";
import {
  type OpenPlatformKeys,
  openPlatformKeys,
  type PlatformKeys,
} from "../../config/platform-keys.ts";
import type { HeldKeks } from "../../custody/kek.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { fetchTrusting } from "../../program/http/http-client.ts";
import type { Environment } from "../files/places.ts";
import { shareAside } from "../limits/turn.ts";
import { findAwsCredential } from "./aws-credential.ts";
import {
  findAzureCredential,
  findGoogleCredential,
  findVaultCredential,
} from "./cloud-credentials.ts";

/** Key services with the credentials that the tools of each cloud find on a machine. */
export function nodeKeyCustody(
  configuration: Parameters<OpenPlatformKeys>[0],
  variables: Environment,
  clock: () => Date,
): PlatformKeys {
  const fetch = fetchTrusting(undefined);
  // A variable without a value is one that is not set, to all of these tools.
  const environment = Object.fromEntries(Object.entries(variables).filter(([, value]) => value));
  const machine = { environment, fetch, clock };
  return openPlatformKeys(configuration, {
    fetch,
    clock,
    ofTheMachine: async (service, given, audience) => {
      if (service === "gcpkms") return findGoogleCredential(machine, given);
      if (service === "hashivault") return findVaultCredential(machine, given);
      if (given !== undefined) return given;
      return service === "awskms"
        ? findAwsCredential(machine)
        : findAzureCredential(machine, audience);
    },
  });
}

/** One lease for the stores and the log of a server. A renewal goes on beside the calls, and none waits for it. */
export async function openKeysHere(
  configuration: Configuration,
  environment: Environment,
  { clock, log }: { readonly clock: () => Date; readonly log: OperationLog },
): Promise<{ readonly keks: HeldKeks; readonly keyCustody: PlatformKeys }> {
  const keyCustody = nodeKeyCustody(configuration, environment, clock);
  const means = { clock, log, shareWork: shareAside, inBackground: () => {}, keyCustody };
  return { keks: await holdKeks(configuration, means), keyCustody };
}
