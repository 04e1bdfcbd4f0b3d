import type { Configuration } from "../../config/configuration.ts";
import { ConfiguredKeks } from "../../config/keks.ts";
import { type OpenPlatformKeys, PlatformKeys } from "../../config/platform-keys.ts";
import type { HeldKeks } from "../../custody/kek.ts";
import type { OperationLog } from "../../foundation/events.ts";
import type { Environment } from "../files/places.ts";
import { shareAside } from "../limits/turn.ts";
import { awsCredentialOf } from "./aws-credential.ts";
import {
  findAzureCredential,
  findGoogleCredential,
  findVaultCredential,
  machineWith,
} from "./cloud-credentials.ts";

/** Opens key services with the credentials that each cloud's own tools would find on this machine. */
export function nodeKeyCustody(
  configuration: Parameters<OpenPlatformKeys>[0],
  variables: Environment,
  clock: () => Date,
): PlatformKeys {
  const machine = machineWith(variables);
  return PlatformKeys.open(configuration, {
    fetch: machine.fetch,
    clock,
    monotonic: () => performance.now(),
    random: Math.random,
    ofTheMachine: async (service, given, audience) => {
      if (service === "gcpkms") return findGoogleCredential(machine, given, clock());
      if (service === "hashivault") return findVaultCredential(machine, given);
      if (given !== undefined) return given;
      return service === "awskms"
        ? awsCredentialOf(machine, "KEY_CREDENTIAL_AWSKMS")?.()
        : findAzureCredential(machine, audience, clock());
    },
  });
}

/**
 * Opens the key services of a server, with one lease of its KEKs for its stores and its log.
 *
 * @param platform Unless it `freezes`, the lease is renewed in the background, and no call waits for that.
 */
export async function openKeysHere(
  configuration: Configuration,
  environment: Environment,
  platform: {
    readonly clock: () => Date;
    readonly log: OperationLog;
    /** Whether the platform suspends the process between two calls. */
    readonly freezes?: boolean;
  },
): Promise<{ readonly keks: HeldKeks; readonly keyCustody: PlatformKeys }> {
  const { clock, log, freezes } = platform;
  const keyCustody = nodeKeyCustody(configuration, environment, clock);
  const inBackground = freezes ? undefined : () => {};
  const means = { clock, log, shareWork: shareAside, inBackground, keyCustody };
  return { keks: await ConfiguredKeks.hold(configuration, means), keyCustody };
}
