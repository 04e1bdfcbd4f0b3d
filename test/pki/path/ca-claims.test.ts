import { expect, test } from "vitest";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { CaCertificate } from "../../../src/pki/path/certification-path.ts";
import { richRoot } from "../../fuzz/corpus/certificates.ts";
import { applyEdit, type DerEdit } from "../../testkit/der/mutation.ts";

const policies = [0, 7, 0, 7, 1];
const access = [0, 7, 0, 9, 1];

test("reads a root with the extensions of a public CA", () => {
  const { claims } = CaCertificate.parse(richRoot, "a root");
  expect(claims).toMatchObject({ isAuthority: true, pathLength: 3, maySignCertificates: true });
  expect(claims.criticalExtensions).toEqual(["2.5.29.15", "2.5.29.19", "2.5.29.30"]);
});

const anyPolicy = "30060604551d2000";

const faults: Readonly<Record<string, DerEdit>> = {
  "a policy twice": { at: policies, replace: `04123010${anyPolicy}${anyPolicy}` },
  "a policy without a name": { at: policies, replace: "040430023000" },
  "no policy": { at: policies, replace: "04023000" },
  "access to no place": { at: [...access, 0, 0, 1], replace: "" },
  "access to a place that is no name": { at: [...access, 0, 0, 1], replace: "0500" },
  "access to two places": { at: [...access, 0, 0, 1], after: "860161" },
  "access by no method": { at: [...access, 0, 0, 0], replace: "" },
  "access to a place that is not ASCII": { at: [...access, 0, 0, 1], replace: "8601ff" },
  "no access": { at: access, replace: "04023000" },
  "critical access": { at: access, replace: "0101ff040b30093007 06025504 860161" },
};

test.each(Object.entries(faults))("refuses %s, as Go's crypto/x509 does", (_, edit) => {
  const root = applyEdit(richRoot, edit);
  expect(() => CaCertificate.parse(root, "a root")).toThrow(DerError);
});
