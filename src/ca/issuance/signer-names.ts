/** The `CertSigner` of a request for a serving certificate. */
export const servingSigner = "serving";

/** The `CertSigner` of a request for an intermediate CA. */
export const intermediateSigner = "intermediate";

/** The most DNS names of a serving certificate: as many as a table may give to a gateway. */
export const maximumServingNames = 32;
