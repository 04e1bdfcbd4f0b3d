import java.io.FileInputStream;
import java.io.InputStream;
import java.security.Security;
import java.security.cert.*;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.bouncycastle.jce.provider.BouncyCastleProvider;

/** Verifies as BouncyCastle does: `leaf ROOTS LEAF`, or `crl ROOTS CRL`, each a file of PEM blocks. */
public class Judge {
  public static void main(String[] words) throws Exception {
    Security.addProvider(new BouncyCastleProvider());
    CertificateFactory factory = CertificateFactory.getInstance("X.509", "BC");
    try (InputStream roots = new FileInputStream(words[1]);
        InputStream shown = new FileInputStream(words[2])) {
      Set<TrustAnchor> anchors = new HashSet<>();
      for (Certificate root : factory.generateCertificates(roots)) {
        anchors.add(new TrustAnchor((X509Certificate) root, null));
      }
      if (words[0].equals("crl")) {
        X509CRL crl = (X509CRL) factory.generateCRL(shown);
        for (TrustAnchor anchor : anchors) crl.verify(anchor.getTrustedCert().getPublicKey(), "BC");
        return;
      }
      PKIXParameters parameters = new PKIXParameters(anchors);
      parameters.setRevocationEnabled(false);
      CertPath path = factory.generateCertPath(List.of(factory.generateCertificate(shown)));
      CertPathValidator.getInstance("PKIX", "BC").validate(path, parameters);
    }
  }
}
