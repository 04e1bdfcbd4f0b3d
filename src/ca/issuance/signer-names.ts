/** The values of `CertSigner` that ask for another product instead of naming a signer. */
export const CertSigner = { serving: "serving", intermediate: "intermediate" } as const;

/** The most DNS names of a serving certificate: as many as a table may give to a gateway. */
export const maximumServingNames = 32;
