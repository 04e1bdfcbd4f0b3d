import type { AuthorityView } from "../../ca/authority-view.ts";
import type { EventLog } from "../../ca/issuance/event-log.ts";
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

/**
 * Opens the stores of a deployment, with a clock that is fixed at `now`, except for key services.
 * @param log By default nothing is logged, because the caller reports faults.
 */
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

/**
 * Reads the configuration of a CA, and opens its key services with the operator's credentials. The store is not read,
 * and may be new.
 */
export async function openKeyServices(
  { clock, environment }: Terminal,
  options: DeploymentChoice,
): Promise<{ readonly configuration: Configuration; readonly keyServices: KeyServices }> {
  // Stands for the KEK of a new CA, which has none yet: the store stays closed, so nothing is sealed with it.
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

/** Awaits work with a key of a key service. @throws OperatorError for every failure of it. */
export const ofKeyService = <T>(work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw new OperatorError(messageOf(error));
  });
