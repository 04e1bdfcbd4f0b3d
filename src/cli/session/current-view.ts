import type { AuthorityView } from "../../ca/authority-view.ts";
import { compose } from "../../config/composition.ts";
import { CaError, OperatorError } from "../../foundation/errors.ts";
import { nodeKeyCustody } from "../../node/key-service/key-custody.ts";
import { nodeCryptoProvider } from "../../node/node-crypto-provider.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import type { Deployment } from "./deployment.ts";

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
