import type { AuthorityView } from "../../ca/authority-view.ts";
import { compose } from "../../config/composition.ts";
import type { Configuration } from "../../config/configuration.ts";
import { kekOctets } from "../../custody/kek.ts";
import type { KeyServices } from "../../custody/key-service/key-services.ts";
import { CaError, OperatorError } from "../../foundation/errors.ts";
import { nodeKeyCustody } from "../../node/key-service/key-custody.ts";
import { nodeCryptoProvider } from "../../node/node-crypto-provider.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { type Deployment, type DeploymentChoice, openDeployment } from "./deployment.ts";

/** The authorities of a CA now, those of named signers included; `undefined` if the store cannot be read. */
export async function currentView(
  { configuration, store, signerStore, environment }: Deployment,
  now: Date,
): Promise<AuthorityView | undefined> {
  // The caller opens the store as well, and logs its faults.
  const log = { audit: () => {}, operation: () => {} };
  const cryptoProvider = nodeCryptoProvider;
  const clock = (): Date => now;
  const keyCustody = nodeKeyCustody(configuration, environment, () => new Date());
  const platform = { store, signerStore, cryptoProvider, log, clock, keyCustody };
  try {
    const { certificateAuthority } = await compose(configuration, platform);
    return await certificateAuthority.issuance.authorities.at(now);
  } catch (error) {
    if (error instanceof CaError || error instanceof OperatorError) return undefined;
    throw error;
  }
}

/** The trust bundle that a CA publishes now, named signers included; `undefined` if there is none. */
export async function currentBundle(
  deployment: Deployment,
  now: Date,
): Promise<NumberedBundle | undefined> {
  return bundleOf(await currentView(deployment, now));
}

/** The trust bundle of a view; `undefined` if there is none. */
export function bundleOf(view: AuthorityView | undefined): NumberedBundle | undefined {
  if (!view || view.trustBundle.roots.length === 0) return undefined;
  return { pem: view.trustBundle.pem, sequence: view.sequence };
}

/** The configuration of a CA, whose store stays closed, and the key services by the operator's credentials. */
export async function openKeyServices(
  { clock, environment }: Terminal,
  options: DeploymentChoice,
): Promise<{ readonly configuration: Configuration; readonly keyServices: KeyServices }> {
  // A CA that is new has no KEK yet, and no KEK is used here but one that is named.
  const none = `none:${Buffer.alloc(kekOctets).toString("base64")}`;
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
