import { CaError } from "../foundation/errors.ts";
import type { Authenticator } from "./caller.ts";

/**
 * Authenticates a credential as that of a gateway.
 * @returns The gateway's issuer and SPIFFE ID in one text; `undefined` for any other account, and for a refused credential.
 */
export async function provedGateway(
  authenticate: Authenticator,
  authorization: string,
  now: Date,
): Promise<string | undefined> {
  const get = (name: string): string | null => (name === "authorization" ? authorization : null);
  try {
    const { issuer, account, spiffeId } = await authenticate({ headers: { get } }, now);
    return issuer?.gatewayNames?.(account) && `${issuer.name} ${spiffeId}`;
  } catch (error) {
    if (error instanceof CaError) return undefined;
    throw error;
  }
}
