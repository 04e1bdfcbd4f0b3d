import { describe, expect, test } from "vitest";
import { pushTargets } from "../../src/config/cluster-access.ts";
import { ConfigurationError } from "../../src/foundation/errors.ts";
import { configurationOf, issuer } from "../testkit/configuration.ts";

const server = "https://10.0.0.1:6443";
const credential = "CLUSTER_CREDENTIAL_A";
const pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const fetching = { fetchTrusting: () => fetch };

describe("the clusters that get roots", () => {
  const asked = { server, credential, deliver_roots: true };
  const targetsOf = (...tables: readonly object[]) =>
    pushTargets("deliver_roots", configurationOf({ ISSUERS: tables, [credential]: "x" }), fetching);

  test("are those with deliver_roots, and no others", () => {
    const other = { server: "https://10.0.0.2", credential, review: "instead-of-keys" };
    expect(
      targetsOf(
        { issuer, cluster: "a", kubernetes: asked },
        { issuer: "https://b.test", cluster: "b", kubernetes: other },
        { issuer: "https://c.test", cluster: "c" },
      ),
    ).toMatchObject([{ cluster: "a", configMap: "istio-ca-root-cert" }]);
  });

  test("count once for each ConfigMap that two tables of one API server name", () => {
    const second = { ...asked, config_map: "roots" };
    const elsewhere = { ...asked, server: "https://10.0.0.2" };
    const tables = [asked, second, asked, elsewhere].map((kubernetes, i) => ({
      issuer: `https://${i}.test`,
      cluster: `c${i}`,
      kubernetes,
    }));
    const places = targetsOf(...tables).map((each) => [each.cluster, each.configMap]);
    const usual = "istio-ca-root-cert";
    expect(places).toEqual([
      ["c0", usual],
      ["c1", "roots"],
      ["c3", usual],
    ]);
  });

  test("need their credential", () => {
    const configuration = configurationOf({ ISSUERS: [{ issuer, kubernetes: asked }] });
    expect(() => pushTargets("deliver_roots", configuration, fetching)).toThrow(
      `${credential}: is required`,
    );
  });

  test("are refused where the platform cannot trust their CA", () => {
    const refuse = () => {
      throw new ConfigurationError(["ISSUERS: not here"]);
    };
    const configuration = configurationOf({
      ISSUERS: [{ issuer, kubernetes: { ...asked, ca: pem } }],
      [credential]: "x",
    });
    expect(() => pushTargets("deliver_roots", configuration, { fetchTrusting: refuse })).toThrow(
      ConfigurationError,
    );
  });
});

describe("the clusters that get CRLs", () => {
  const targetsOf = (...tables: readonly object[]) =>
    pushTargets(
      "deliver_crls",
      configurationOf({ CRL: "on", ISSUERS: tables, [credential]: "x" }),
      fetching,
    );

  test("are those with deliver_crls, in a ConfigMap that has another name than that of roots", () => {
    const kubernetes = { server, credential, deliver_crls: true, config_map: "roots" };
    const other = { server: "https://10.0.0.2", credential, deliver_roots: true };
    expect(
      targetsOf(
        { issuer, cluster: "a", kubernetes },
        { issuer: "https://b.test", cluster: "b", kubernetes: other },
      ),
    ).toMatchObject([{ cluster: "a", configMap: "istio-ca-crl" }]);
  });

  test("count once while an API server changes its issuer", () => {
    const kubernetes = { server, credential, deliver_crls: true };
    expect(
      targetsOf(
        { issuer, cluster: "a", kubernetes },
        { issuer: "https://b.test", cluster: "a", kubernetes },
      ),
    ).toHaveLength(1);
  });
});
