import type { Configuration } from "../config/configuration.ts";
import { holdKeks } from "../config/keks.ts";
import type { HeldKeks } from "../custody/kek.ts";
import {
  type KeyCustody,
  type OpenKeyCustody,
  openKeyCustody,
} from "../custody/key-service/key-custody.ts";
import type { OperationLog } from "../foundation/events.ts";
import { fetchTrusting } from "../program/http/node-fetch.ts";
import type { Environment } from "./files/cluster-place.ts";
import { shareAside } from "./limits/turn.ts";
import { credentialsInEnvironment } from "./stores/bucket-place.ts";

/** Key services with the credentials that the tools of each cloud find on a machine. */
export const nodeKeyCustody = (
  configuration: Parameters<OpenKeyCustody>[0],
  environment: Environment,
  clock: () => Date,
): ReturnType<OpenKeyCustody> =>
  openKeyCustody(configuration, {
    fetch: fetchTrusting(undefined),
    clock,
    ofTheMachine: async (service) =>
      service === "awskms" ? ofAws(environment) : environment["VAULT_TOKEN"]?.trim(),
  });

/** One lease for the stores and the log of a server. A renewal goes on beside the calls, and none waits for it. */
export async function openKeysHere(
  configuration: Configuration,
  environment: Environment,
  { clock, log }: { readonly clock: () => Date; readonly log: OperationLog },
): Promise<{ readonly keks: HeldKeks; readonly keyCustody: KeyCustody }> {
  const keyCustody = nodeKeyCustody(configuration, environment, clock);
  const means = { clock, log, shareWork: shareAside, inBackground: () => {}, keyCustody };
  return { keks: await holdKeks(configuration, means), keyCustody };
}

async function ofAws(environment: Environment): Promise<string | undefined> {
  const credential = await credentialsInEnvironment(environment)?.();
  return credential && awsJson(credential);
}

/** The form of `aws configure export-credentials`. */
const awsJson = ({
  accessKeyId: AccessKeyId,
  secretAccessKey: SecretAccessKey,
  sessionToken: SessionToken,
}: {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | undefined;
}): string => JSON.stringify({ AccessKeyId, SecretAccessKey, SessionToken });
