import { type UpstreamAuthority, UpstreamError } from "../ca/upstream/upstream-authority.ts";
import { ConfigurationError } from "../foundation/configuration-error.ts";
import {
  FetchError,
  type Fetching,
  readJson,
  toFetchError,
} from "../foundation/http/json-fetch.ts";
import type { Credential } from "../kubernetes/client.ts";
import { toHex } from "../pki/encoding/bytes.ts";
import { trustDomainSpiffeId } from "../pki/spiffe-id.ts";
import { intermediateName } from "../pki/x509/intermediate.ts";
import { keyIdentifier } from "../pki/x509/key-identifier.ts";
import { readRequestedKey } from "../pki/x509/request/certificate-signing-request.ts";
import type { Configuration } from "./configuration.ts";
import { rampartProtocol, type UpstreamProtocol, vaultProtocol } from "./upstream-clients.ts";
import { type UpstreamTable, upstreamCredential } from "./upstream-table.ts";

/** A CA may sign in an HSM that is far away. The authority that signs does not wait for it. */
const timeoutMilliseconds = 30_000;

/**
 * The CA upstream of a configuration, if it has one.
 *
 * @param isServer Whether a credential is required at the start. A verb may lack it until it asks.
 * @throws ConfigurationError
 */
export function upstreamOf(
  configuration: Configuration,
  fetching: Fetching | undefined,
  isServer: boolean,
): UpstreamAuthority | undefined {
  const { upstream: table, clusterCredentials } = configuration;
  if (!table) return undefined;
  const credential = clusterCredentials.get(upstreamCredential);
  if (isServer && !credential) throw new ConfigurationError([`${upstreamCredential}: is required`]);
  if (!fetching || !credential) {
    return async () => {
      throw new UpstreamError(`${upstreamCredential} is required to ask the CA upstream`);
    };
  }
  return createUpstream(table, protocolOf(table, configuration), credential, fetching);
}

function protocolOf(
  { kind, mount }: UpstreamTable,
  { trustDomain }: Configuration,
): UpstreamProtocol {
  if (kind === "rampart") return rampartProtocol;
  return vaultProtocol(mount, {
    name: (csr) => intermediateName(trustDomain, toHex(keyIdentifier(readRequestedKey(csr)))),
    organization: trustDomain.slice(0, 64),
    uri: trustDomainSpiffeId(trustDomain),
  });
}

function createUpstream(
  { url, ca }: UpstreamTable,
  protocol: UpstreamProtocol,
  credential: Credential,
  { fetchTrusting, fetchTimeoutMilliseconds = timeoutMilliseconds }: Fetching,
): UpstreamAuthority {
  const fetch = fetchTrusting(ca);
  const send = async (body: object): Promise<unknown> => {
    const headers = protocol.headers(await credential());
    const response = await fetch(`${url}${protocol.path}`, {
      method: "POST",
      headers: { ...headers, accept: "application/json", "content-type": "application/json" },
      body: JSON.stringify(body),
      redirect: "manual",
      signal: AbortSignal.timeout(fetchTimeoutMilliseconds),
    });
    if (response.status === 200) return readJson(response);
    await response.body?.cancel();
    throw new FetchError(`answered with status ${response.status}`, { status: response.status });
  };
  return async (request) => {
    try {
      return protocol.answer(await send(protocol.body(request)));
    } catch (error) {
      if (error instanceof UpstreamError) throw error;
      throw new UpstreamError(`the CA upstream ${toFetchError(error, "did not answer").message}`);
    }
  };
}
