import type { AuthorityView } from "../../ca/authority-view.ts";
import type { EventLog } from "../../ca/issuance/audit-event.ts";
import { CaStores } from "../../config/ca-stores.ts";
import type { Configuration } from "../../config/configuration.ts";
import { Kek } from "../../custody/kek.ts";
import type { KeyServices } from "../../custody/key-service/key-service.ts";
import { CaError, messageOf, OperatorError } from "../../foundation/errors.ts";
import { nodeKeyCustody } from "../../node/key-service/key-custody.ts";
import { nodeCryptoProvider } from "../../node/node-crypto-provider.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { type Deployment, type DeploymentChoice, openDeployment } from "./deployment.ts";

const noLog: EventLog = { audit: () => {}, operation: () => {} };

/** The stores of a deployment at an instant. Without a log, their caller opens them and tells of the faults. */
export async function storesAt(
  { configuration, store, signerStore, environment }: Deployment,
  now: Date,
  log = noLog,
) {
  const platform = {
    store,
    signerStore,
    cryptoProvider: nodeCryptoProvider,
    fetching: { fetchTrusting: NodeFetch.trusting },
    mayLackCredential: true,
    log,
    clock: () => now,
    keyCustody: nodeKeyCustody(configuration, environment, () => new Date()),
  };
  const stores = await CaStores.open(configuration, platform);
  return { ...stores, ...CaStores.mints(stores, configuration, platform) };
}

/** The authorities of a CA now, those of named signers included; `undefined` if the store cannot be read. */
export async function currentView(
  deployment: Deployment,
  now: Date,
): Promise<AuthorityView | undefined> {
  try {
    const { own } = await storesAt(deployment, now);
    return await own.authorities.at(now);
  } catch (error) {
    if (error instanceof CaError || error instanceof OperatorError) return undefined;
    throw error;
  }
}

/** The configuration of a CA, whose store stays closed, and the key services by the operator's credentials. */
export async function openKeyServices(
  { clock, environment }: Terminal,
  options: DeploymentChoice,
): Promise<{ readonly configuration: Configuration; readonly keyServices: KeyServices }> {
  // A CA that is new has no KEK yet, and no KEK is used here but one that is named.
  const none = `none:${Buffer.alloc(Kek.octets).toString("base64")}`;
  const choice = { ...options, dryRun: true, mayBeNew: true };
  const { configuration, close } = await openDeployment(
    choice,
    { KEK: none, ...environment },
    clock(),
  );
  await close();
  const { keyServices } = nodeKeyCustody(configuration, environment, clock);
  return { configuration, keyServices };
}

/** The result of work with a key, whose failure an operator can mend. @throws OperatorError */
export const ofKeyService = <T>(work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw new OperatorError(messageOf(error));
  });
