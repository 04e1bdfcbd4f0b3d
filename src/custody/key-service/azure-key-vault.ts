import { Members } from "../../foundation/json-members.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { toX509Signature } from "../../pki/signature-writer.ts";
import { type Call, type KeyServiceContext, KeyServiceError, type OpenKey } from "./key-service.ts";
import { type Access, ServiceCall } from "./service-call.ts";

const pathPattern = /^\/keys\/[A-Za-z0-9-]{1,127}\/[0-9a-f]{32}$/;
const version = "?api-version=2025-07-01";

/** Patterns for the errors of Azure. */
const dialect = {
  disabled: /KeyDisabled/i,
  untimely: /NotYetValid|Expired/i,
  deleted: /Deleted/i,
  address: /Firewall|Connection/i,
  credential: /^401/,
  type: /^400|KeyOperationForbidden/i,
  permission: /^403/,
  missing: /^404/,
};

/**
 * Opens a version of a key of Azure Key Vault or Managed HSM: `azurekms://<vault>/keys/<name>/<version>`; `undefined`
 * for any other place. Its `unwrap` ignores the context.
 */
export const azureKey: OpenKey = ({ origin, path, uri }, means) => {
  if (origin === undefined || !pathPattern.test(path)) return undefined;
  const [, service = "vault.azure.net"] = /\.((?:vault|managedhsm)\..+)/.exec(origin) ?? [];

  const asked = ServiceCall.callsTo(means, {
    obtain: () => tokenFor(means, `https://${service}`),
    url: (act) => `${origin}${path}${act}${version}`,
    request: ServiceCall.withBearer,
    fault: (answer, act) => {
      const error = Members.of(answer.members["error"]);
      const said = `${Members.of(error["innererror"])["code"] ?? error["code"]}`;
      const right = `${act.slice(1) || "get"} on the key`;
      return ServiceCall.faultIn(answer, dialect, said, { right, place: "in this vault" });
    },
  });
  const call: Call = async (act, body) => {
    const members = await asked(act, body);
    const { kid } = { ...Members.of(members["key"]), ...members };
    ServiceCall.requireSameKey(kid === `${origin}${path}`);
    return members;
  };

  return {
    uri,
    call,
    unwrap: (ciphertext) => transform(call, "/unwrapkey", "RSA-OAEP-256", ciphertext),
    sign: async (bytes, { hash = "SHA-256", scalarOctets }) => {
      const alg = `${scalarOctets ? "ES" : "RS"}${hash.slice(4)}`;
      const signature = await transform(
        call,
        "/sign",
        alg,
        await ServiceCall.digestOf(bytes, hash),
      );
      if (scalarOctets === undefined) return signature;
      if (signature.length === 2 * scalarOctets) return toX509Signature(signature, scalarOctets);
      throw new KeyServiceError("answered a signature of another curve");
    },
  };
};

/** Lets the key perform an operation, such as `/sign`, on octets, and returns its result. */
export const transform = async (
  call: Call,
  act: string,
  alg: string,
  octets: Bytes,
): Promise<Bytes> =>
  ServiceCall.octetsIn(
    await call(act, { alg, value: Base64.formatUrl(octets) }),
    "value",
    Base64.parseUrl,
  );

/** Obtains a token by a client secret, by a federated token, or from the machine. */
async function tokenFor(
  { fetch, credential }: KeyServiceContext,
  resource: string,
): Promise<Access<string>> {
  const given = await credential("azurekms", resource);
  const ready = ServiceCall.readyToken(given);
  if (ready) return ready;
  const {
    password,
    assertion,
    authority = "https://login.microsoftonline.com",
  } = Members.of(given);
  const login = { ...Members.of(given), password: password ?? assertion };
  const [tenant = "", client_id = "", proof = ""] = ServiceCall.textsIn(login, [
    "tenant",
    "appId",
    "password",
  ]);
  return ServiceCall.grant(fetch, `${authority}/${encodeURIComponent(tenant)}/oauth2/v2.0/token`, {
    grant_type: "client_credentials",
    client_id,
    scope: `${resource}/.default`,
    ...(password
      ? { client_secret: proof }
      : {
          client_assertion: proof,
          client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        }),
  });
}
