package absent
