"""The evaluation of the Medusa paper: contracts and payments between participants."""
