import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { KeyState } from "../authn/token/issuer-keys.ts";
import type { TrustedIssuer } from "../authn/trusted-issuer.ts";
import { type IssuerSchema, Issuer_KeyState as State } from "../gen/rampart/status/v1/status_pb.ts";

const longestFailure = 500;

/** An issuer, and its keys as this process, or this isolate, has them. */
export function issuerStatus({
  name,
  cluster,
  keys,
}: TrustedIssuer): MessageInitShape<typeof IssuerSchema> {
  const state = keys.state?.();
  if (!state) return { name, cluster };
  const { fetchedAt, failure } = state;
  return {
    name,
    cluster,
    keys: stateOf(state),
    knownKeys: state.keys.map(({ keyId = "", algorithms }) => ({
      id: keyId,
      algorithms: [...algorithms],
    })),
    ...(fetchedAt && { fetchedAt: timestampFromDate(fetchedAt) }),
    ...(failure && {
      failedAt: timestampFromDate(failure.at),
      failure: failure.detail.slice(0, longestFailure),
    }),
  };
}

function stateOf({ source, keys, fetchedAt, failure }: KeyState): State {
  if (source === "configuration") return State.CONFIGURED;
  if (failure) return keys.length > 0 ? State.STALE : State.UNREACHABLE;
  return fetchedAt ? State.FETCHED : State.NOT_FETCHED;
}
