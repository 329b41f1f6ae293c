from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "0002_from_pilot")]

    operations = [migrations.DeleteModel("SavedView")]
