import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { parseForeignAuthority } from "../../../src/pki/authority/foreign-authority.ts";
import { DerError } from "../../../src/pki/encoding/der-reader.ts";
import { CaCertificate } from "../../../src/pki/path/certification-path.ts";
import { richRoot, rootCertificates } from "../../fuzz/corpus/certificates.ts";
import { applyEdit, type DerEdit } from "../../testkit/der/mutation.ts";

/** The fields of a TBSCertificate by their place, and the extensions of the rich root. */
const serialNumber = [0, 1];
const subject = [0, 5];
const attribute = [...subject, 0, 0];
const list = [0, 7, 0];
const [keyUsage, constraints, subjectKey, authorityKey, purposes, names, , policies] = [
  0, 1, 2, 3, 4, 5, 6, 7,
].map((number) => [...list, number]);

test.each([...rootCertificates, richRoot])("reads root %#, as OpenSSL does", (root) => {
  const { validity } = parseForeignAuthority(root).toBeSigned;
  expect(validity.notAfter).toEqual(new X509Certificate(root).validToDate);
});

const value = (extension: readonly number[] = []): readonly number[] => [...extension, 1];
const criticalValue = (extension: readonly number[] = []): readonly number[] => [...extension, 2];

const faults: Readonly<Record<string, DerEdit>> = {
  "a negative serial number": { at: serialNumber, replace: "020180" },
  "a serial number with a needless zero": { at: serialNumber, replace: "02020001" },
  "a serial number without octets": { at: serialNumber, replace: "0200" },
  "an issuer with an empty part": { at: [0, 3, 0], replace: "3100" },
  "a post-quantum key": { at: [0, 6], replace: "3012300b0609608648016503040311030300aaaa" },
  "a name with an empty part": { at: [...subject, 0], replace: "3100" },
  "an attribute without a value": { at: [...attribute, 1], replace: "" },
  "an attribute with two values": { at: [...attribute, 1], after: "0c0161" },
  "an attribute that is an INTEGER": { at: [...attribute, 1], replace: "020101" },
  "an attribute that is a SEQUENCE": { at: [...attribute, 1], replace: "3000" },
  "an attribute of no type": { at: [...attribute, 0], replace: "0600" },
  "an attribute of a type that is cut off": { at: [...attribute, 0], replace: "06025584" },
  "an attribute of a type with a needless octet": { at: [...attribute, 0], replace: "0603558003" },
  "an attribute of a type with a huge arc": { at: [...attribute, 0], replace: "0606558880808000" },
  "an attribute that is not UTF-8": { at: [...attribute, 1], replace: "0c02c328" },
  "an attribute that PrintableString does not allow": { at: [...attribute, 1], replace: "130140" },
  "an attribute that NumericString does not allow": { at: [...attribute, 1], replace: "120141" },
  "an attribute that IA5String does not allow": { at: [...attribute, 1], replace: "160180" },
  "a signature of no octets": { at: [2], replace: "0300" },
  "basic constraints of a FALSE": { at: criticalValue(constraints), replace: "04053003010100" },
  "a path length that is negative": {
    at: criticalValue(constraints),
    replace: "040830060101ff0201ff",
  },
  "a path length of two octets": {
    at: criticalValue(constraints),
    replace: "040930070101ff02020100",
  },
  "octets after the basic constraints": { at: criticalValue(constraints), append: "0500" },
  "key usage with a bit that is not used": { at: criticalValue(keyUsage), replace: "040403020107" },
  "a critical subject key identifier": { at: value(subjectKey), replace: "0101ff04020400" },
  "a critical authority key identifier": { at: value(authorityKey), replace: "0101ff04023000" },
  "a purpose that is no OBJECT IDENTIFIER": { at: value(purposes), replace: "040430020500" },
  "octets after the purposes": { at: value(purposes), append: "0500" },
  "a URI with a control character": { at: [...value(names), 0, 0], text: "spiffe://a\n" },
  "a URI with a space in its host": { at: [...value(names), 0, 0], text: "spiffe://a b" },
  "a URI without a scheme": { at: [...value(names), 0, 0], text: "cluster.local" },
  "a URI that is not ASCII": { at: [...value(names), 0, 0], text: "spiffe://é" },
  "a DNS name that is not ASCII": { at: [...value(names), 0, 1], text: "é.test" },
  "a mail address of no octets": { at: value(names), replace: "040430028100" },
  "a DNS name of no octets": { at: [...value(names), 0, 1], replace: "8200" },
  "octets after the names": { at: value(names), append: "0500" },
  "policies that are not DER": { at: value(policies), replace: "0403300500" },
  "policies with a broken name": { at: [...value(policies), 0, 0, 0], replace: "0600" },
};

test.each(Object.entries(faults))("refuses %s", (_, edit) => {
  expect(() => parseForeignAuthority(applyEdit(richRoot, edit))).toThrow(DerError);
});

const surprises: Readonly<Record<string, DerEdit>> = {
  "a serial number of zero": { at: serialNumber, replace: "020100" },
  "an empty subject": { at: subject, replace: "3000" },
  "a name in the teletex alphabet": { at: [...attribute, 1], replace: "1402e961" },
  "a private extension that is not DER": {
    at: [...list, 7],
    replace: "300f 06082b0601040181ff02 0403023001",
  },
};

test.each(Object.entries(surprises))("reads %s, as every verifier does", (_, edit) => {
  const changed = applyEdit(richRoot, edit);
  expect(parseForeignAuthority(changed).der).toEqual(changed);
});

const access = [...list, 9, 1];

test("reads a root with the extensions of a public CA", () => {
  const { claims } = CaCertificate.parse(richRoot, "a root");
  expect(claims).toMatchObject({ isAuthority: true, pathLength: 3, maySignCertificates: true });
  expect(claims.criticalExtensions).toEqual(["2.5.29.15", "2.5.29.19", "2.5.29.30"]);
});

const anyPolicy = "30060604551d2000";

const faultsOfPaths: Readonly<Record<string, DerEdit>> = {
  "a policy twice": { at: value(policies), replace: `04123010${anyPolicy}${anyPolicy}` },
  "a policy without a name": { at: value(policies), replace: "040430023000" },
  "no policy": { at: value(policies), replace: "04023000" },
  "access to no place": { at: [...access, 0, 0, 1], replace: "" },
  "access to a place that is no name": { at: [...access, 0, 0, 1], replace: "0500" },
  "access to two places": { at: [...access, 0, 0, 1], after: "860161" },
  "access by no method": { at: [...access, 0, 0, 0], replace: "" },
  "access to a place that is not ASCII": { at: [...access, 0, 0, 1], replace: "8601ff" },
  "no access": { at: access, replace: "04023000" },
  "critical access": { at: access, replace: "0101ff040b30093007 06025504 860161" },
};

test.each(Object.entries(faultsOfPaths))("refuses %s, as Go's crypto/x509 does", (_, edit) => {
  const root = applyEdit(richRoot, edit);
  expect(() => CaCertificate.parse(root, "a root")).toThrow(DerError);
});
